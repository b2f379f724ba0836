#pragma once
// A matrix product with a quantised right operand: C = A * W^T with
//   W[n, k] = (Q[n, k] - zero) * scale[n, k / group] + offset[n, k / group].
//
// Buffers: [A, Q], the scales if there are any, the offsets if there are any, then C or an
// epilogue's extra buffers. Dims: quantised_dims, then those of the epilogue.

#include <cstdint>

#include "base/dtype.hpp"

namespace gex::problems {

// Positions in the dims of a launch. Strides count elements of memory; a stride of 0 broadcasts.
namespace quantised_dims {
enum : int {
  m,
  n,
  k,
  a_strides,                           // m, k
  q_strides = a_strides + 2,           // n, k; with 4 bits the second one is of bytes
  scale_strides = q_strides + 2,       // n, group
  offset_strides = scale_strides + 2,  // n, group
  c_strides = offset_strides + 2,      // m, n; ignored with an epilogue
  count = c_strides + 2,               // the dims of the epilogue follow
};
}

struct QuantisedMatmulProblem {
  DType a = DType::f32;    // f32, f16, bf16; sums are f32
  DType q = DType::i8;     // i8 or u8
  std::int64_t bits = 8;   // 4: a byte (u8) has element 2i of a row in its lower half, then 2i + 1
  std::int64_t group = 0;  // elements of K that share a scale; 0: all
  std::int64_t zero = 0;
  bool has_scale = false;        // else 1
  DType scale = DType::f32;      // f32, f16, bf16
  bool has_offset = false;       // f32; else 0
  DType c = DType::f32;          // f32, f16, bf16; ignored with an epilogue
  bool any_rows = false;         // a row has the same bits for any number of rows
  bool keep_subnormals = false;  // false: products with bf16 may flush subnormal numbers to zero

  int operands() const { return 2 + (has_scale ? 1 : 0) + (has_offset ? 1 : 0); }
  bool operator==(const QuantisedMatmulProblem&) const = default;
};

}  // namespace gex::problems
