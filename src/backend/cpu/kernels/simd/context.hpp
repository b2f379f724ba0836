#pragma once
// The constant properties of a problem that a kernel of any variant is bound to. Uses nothing of
// the standard library that would emit code in a variant.

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/form.hpp"
#include "base/dtype.hpp"
#include "problems/operands.hpp"

namespace gex::kernels {

using RangeFn = void (*)(const void* context, void* const* buffers, const std::int64_t* dims,
                         std::int64_t begin, std::int64_t end, std::byte* scratch);

struct EpilogueCall {
  RangeFn fn = nullptr;  // null: the kernel stores its output itself
  const void* context = nullptr;
  int extra_buffers = 0;
  int dims_begin = 0;
};

struct PrologueCall {
  RangeFn fn = nullptr;  // null: the operand is in memory
  const void* context = nullptr;
  int first_buffer = 0;
  int input_buffers = 0;
  int dims_begin = 0;
};

struct MatmulContext {
  DType a, b, c;
  bool b_packed, any_rows;
  RangeFn by_pairs;  // replaces Form::packed, see bf16_pairs.hpp; or null
  Form form;
  EpilogueCall epilogue;
  PrologueCall prologues[2];  // of A, of B
};

struct Conv2dContext {
  DType x, w, y;
  std::int64_t stride[2], dilation[2], pad[2], up[2], groups;
  bool w_packed, winograd;
  Form form;
  EpilogueCall epilogue;
  PrologueCall prologue;  // of X
};

using problems::Causal;
using problems::MaskKind;

struct AttentionContext {
  DType qkv, mask_dtype, out;
  MaskKind mask;
  Causal causal;
  bool has_scale;  // else 1/sqrt(head size)
  bool nan_if_fully_masked;
  double scale;
  RangeFn by_pairs;  // for more than a few rows, see bf16_pairs.hpp; or null
  EpilogueCall epilogue;
  PrologueCall prologues[4];  // of Q, K, V, mask
};

// See problems/quantised_matmul.hpp.
struct QuantisedContext {
  DType a, scale, c;
  bool is_signed;
  std::int64_t bits, group, zero;
  bool has_scale, has_offset, any_rows;
  int operands;  // buffers before the result
  EpilogueCall epilogue;
};

// Places of the elements of x whose key is at most `limit` (simd/candidates.hpp), in order; their
// number, or -1 for dtypes that it can't compare.
using CandidatesFn = std::int64_t (*)(DType dtype, const void* x, std::int64_t n, bool descending,
                                      std::uint64_t limit, std::uint32_t* places);

// All kernels of one variant.
struct Variant {
  const char* name;
  int vector_bytes;
  RangeFn matmul;
  RangeFn matmul_pack;
  RangeFn conv2d;
  RangeFn conv2d_pack;
  RangeFn conv2d_weight_grad;
  RangeFn conv2d_input_grad;
  RangeFn attention;
  RangeFn quantised_matmul;
  CandidatesFn candidates;
};

}  // namespace gex::kernels
