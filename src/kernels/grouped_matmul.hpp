#pragma once
// Rows of A in groups, each times a matrix of its own: C[r] = A[r] * B[g] for ends[g-1] <= r <
// ends[g]. How many rows a group has is known only when it runs. Rows after the last group are
// zero.
//
// Buffers: [A, B, ends, C]. Dims: those of a matmul of all rows, with the stride between matrices
// of B as its first batch stride, then the number of groups.

#include "kernels/matmul.hpp"

namespace gex::kernels {

struct GroupedMatmulProblem {
  MatmulProblem product;
  DType ends = DType::i64;  // or i32

  bool operator==(const GroupedMatmulProblem&) const = default;
};

Dim grouped_matmul_grid(Dim columns);
Dim grouped_matmul_scratch_bytes(const GroupedMatmulProblem& problem);
program::Callable make_grouped_matmul(const GroupedMatmulProblem& problem);

}  // namespace gex::kernels
