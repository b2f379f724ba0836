#pragma once
// Batched matrix product C[b] = A[b] * B[b].
//
// Buffers: [A, B, C], or with an epilogue [A, B, extra...]; then the inputs of prologues. The
// buffer of an operand that a prologue computes is not read. Dims: matmul_dims, then those of the
// epilogue and of the prologues.

#include "base/dtype.hpp"
#include "problems/operands.hpp"

namespace gex::problems {

// Positions in the dims of a launch. Strides count elements; a stride of 0 broadcasts.
namespace matmul_dims {
enum : int {
  batch0,
  batch1,
  m,
  n,
  k,
  a_strides,                  // batch0, batch1, m, k
  b_strides = a_strides + 4,  // batch0, batch1, k, n; packed: batch0, batch1 (k and n are ignored)
  c_strides = b_strides + 4,  // batch0, batch1, m, n; ignored with an epilogue
  count = c_strides + 4,      // the dims of the epilogue follow
};
}

struct MatmulProblem {
  DType a = DType::f32;
  DType b = DType::f32;     // any of f32, f16, bf16, summed in f32; both f64; i8 and u8, in i32
  DType c = DType::f32;     // f32, f16, bf16; f64 or f32 for f64; i32; ignored with an epilogue
  bool b_packed = false;    // B is in the layout of the target's pack function
  bool any_rows = false;    // a row has the same bits for any number of rows
  OperandSet computed = 0;  // by prologues, as f32 or f64: 0 is A, 1 is B
  bool keep_subnormals = false;  // false: bf16 matmuls may flush subnormal numbers to zero

  bool operator==(const MatmulProblem&) const = default;
};

}  // namespace gex::problems
