#pragma once
// Scaled dot-product attention: softmax(Q * K^T * scale + mask) * V. Grouped-query attention: heads
// is a multiple of kv_heads, and query heads h*group .. h*group+group-1 read key-value head h.
//
// Buffers: [Q, K, V, out], or with a mask [Q, K, V, mask, out]; an epilogue's extra buffers replace
// out. Then the inputs of prologues. The epilogue's grid is the dense [batch, heads, queries, value
// size]. A query without any visible key (all masked, or no keys at all) gives zeros, as in
// PyTorch, unless nan_if_fully_masked is set.

#include <optional>

#include "base/dtype.hpp"
#include "problems/operands.hpp"

namespace gex::problems {

// Positions in the dims of a launch. Strides count elements; a stride of 0 broadcasts.
namespace attention_dims {
enum : int {
  batch,
  heads,
  kv_heads,
  queries,
  keys,
  head_size,
  value_size,
  q_strides,                       // batch, head, query, element
  k_strides = q_strides + 4,       // batch, kv head, key, element
  v_strides = k_strides + 4,       // batch, kv head, key, element
  out_strides = v_strides + 4,     // batch, head, query, element
  mask_strides = out_strides + 4,  // batch, head, query, key; only with a mask
  count_without_mask = mask_strides,
  count_with_mask = mask_strides + 4,
};
}

struct AttentionProblem {
  DType qkv = DType::f32;          // f32, f16, bf16 (sums in f32) or f64
  DType out = DType::f32;          // f32, f16, bf16; f64 for f64 operands
  MaskKind mask = MaskKind::none;  // additive: added to the scaled scores; boolean: false hides
  DType mask_dtype = DType::f32;   // of an additive mask: f32, f16, bf16; f64 for f64 operands
  // top_left: query i sees keys 0..i (PyTorch's is_causal); bottom_right: the last query sees all.
  Causal causal = Causal::none;
  std::optional<double> scale;       // default: 1/sqrt(head size)
  bool nan_if_fully_masked = false;  // a query whose keys are all masked gives NaN, not zeros
  OperandSet computed = 0;           // by prologues, with dense rows: 0 to 3 are Q, K, V, mask
  bool keep_subnormals = false;      // false: products of bf16 may flush subnormal numbers to zero

  bool operator==(const AttentionProblem&) const = default;
};

}  // namespace gex::problems
