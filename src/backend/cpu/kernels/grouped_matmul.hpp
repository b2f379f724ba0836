#pragma once
// Rows of A in groups, each times a matrix of its own: C[r] = A[r] * B[g] for ends[g-1] <= r <
// ends[g]. How many rows a group has is known only when it runs. Rows after the last group are
// zero.
//
// Buffers: [A, B, ends, C]. Dims: those of a matmul of all rows, with the stride between matrices
// of B as its first batch stride, then the number of groups.
//
// The gradient of the matrices: D[g] = A[rows of g]^T * B[rows of g], zeros where g has no rows.
// Buffers: [A, B, ends, D]. Dims: those of a matmul of A^T and B whose depth are all rows, with the
// stride between matrices of D as its first batch stride, then the number of groups. Grid and
// scratch are those of that matmul.

#include "backend/cpu/kernels/matmul.hpp"

namespace gex::kernels {

struct GroupedMatmulProblem {
  MatmulProblem product;
  DType ends = DType::i64;  // or i32

  bool operator==(const GroupedMatmulProblem&) const = default;
};

Dim grouped_matmul_grid(Dim columns);
Dim grouped_matmul_scratch_bytes(const GroupedMatmulProblem& problem);
program::Callable make_grouped_matmul(const GroupedMatmulProblem& problem);
program::Callable make_grouped_weight_grad(const GroupedMatmulProblem& problem);

}  // namespace gex::kernels
