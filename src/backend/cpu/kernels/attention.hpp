#pragma once
// Scaled dot-product attention on the CPU: softmax(Q*K^T*scale + mask)*V with an online softmax, so
// that no score matrix is stored. Grouped-query attention: heads is a multiple of kv_heads, and
// query heads h*group .. h*group+group-1 read key-value head h.
//
// Buffers: [Q, K, V, out], or with a mask [Q, K, V, mask, out]; with an epilogue its extra ones
// stand for out. Then the inputs of prologues; a computed operand's own buffer is not read. Dims:
// see attention_dims.hpp. The epilogue's grid is the dense [batch, heads, queries, value size].
// A query that sees no key (everything masked, or no keys at all) gives zeros, as PyTorch does,
// unless the problem says otherwise.
// Keys that no query of a block may see by the causal rule are not read.

#include <optional>

#include "backend/cpu/kernels/attention_dims.hpp"
#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/cpu/kernels/simd/context.hpp"
#include "base/dim/dim.hpp"
#include "base/dtype.hpp"
#include "base/hash.hpp"
#include "program/kernel_abi.hpp"

namespace gex::kernels {

struct AttentionProblem {
  DType qkv = DType::f32;          // f32, f16, bf16 (f32 arithmetic) or f64
  DType out = DType::f32;          // f32, f16, bf16; f64 for an f64 problem
  MaskKind mask = MaskKind::none;  // additive: added to the scaled scores; boolean: false hides
  DType mask_dtype = DType::f32;   // of an additive mask: f32, f16, bf16; f64 for an f64 problem
  // top_left: query i sees keys 0..i (PyTorch's is_causal); bottom_right: the last query sees all.
  Causal causal = Causal::none;
  std::optional<double> scale;  // default: 1/sqrt(head size)
  bool nan_if_blind = false;    // where there are keys but none is seen: NaN instead of zeros
  OperandSet computed = 0;      // by prologues, with dense rows: 0 to 3 are Q, K, V, mask

  bool operator==(const AttentionProblem&) const = default;
  Hash hash() const;
};

Dim attention_grid(const AttentionProblem& problem, Dim batch, Dim heads, Dim kv_heads,
                   Dim queries);
Dim attention_scratch_bytes(const AttentionProblem& problem, Dim head_size, Dim value_size);

// UserError(unsupported) for dtypes other than those above.
program::Callable make_attention(const AttentionProblem& problem, const Attached& attached = {},
                                 const Variant* variant = nullptr);

}  // namespace gex::kernels
