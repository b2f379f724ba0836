#pragma once
// Rows of A in groups, each multiplied by the matrix of its group: C[r] = A[r] * B[g] for ends[g-1]
// <= r < ends[g]. The ends are read at run time. Rows after the last group are 0.
//
// Buffers: [A, B, ends, C]. Dims: those of a matmul of all rows, with the stride between matrices
// of B as its first batch stride, then the number of groups.
//
// Gradient of the matrices: D[g] = A[rows of g]^T * B[rows of g], zeros if g has no rows. Buffers:
// [A, B, ends, D]. Dims: those of a matmul of A^T and B over all rows, with the stride between
// matrices of D as its first batch stride, then the number of groups.

#include "problems/matmul.hpp"

namespace gex::problems {

struct GroupedMatmulProblem {
  MatmulProblem product;
  DType ends = DType::i64;  // or i32

  bool operator==(const GroupedMatmulProblem&) const = default;
};

struct GroupedWeightGradProblem {
  GroupedMatmulProblem grouped;
  bool operator==(const GroupedWeightGradProblem&) const = default;
};

}  // namespace gex::problems
