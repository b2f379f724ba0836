#pragma once
// Sorts rows of a strided tensor, or selects the first few of each: values, i64 indices, or both.
// NaN is larger than every number; -0 equals 0.
//
// Buffers: [X, values, indices], without results that are not requested.

#include "base/dtype.hpp"
#include "base/eager_order.hpp"

namespace gex::problems {

// Positions in the dims of a launch. Strides count elements. Each operand has the strides of its
// batch axes, then that of the sorted axis.
namespace sort_dims {
enum : int {
  length,  // of the sorted axis
  kept,    // number of elements of each row to return
  sizes,   // of the batch axes; then the strides of x, of each result
};
constexpr int x_strides(int rank) { return sizes + rank; }
constexpr int result_strides(int rank, int k) { return x_strides(rank) + (k + 1) * (rank + 1); }
constexpr int count(int rank, int results) { return result_strides(rank, results); }
}  // namespace sort_dims

struct SortProblem {
  DType dtype = DType::f32;
  bool descending = false;
  Ties ties = Ties::stable;
  int batch_rank = 0;  // axes besides the sorted one
  bool values = true, indices = true;

  bool operator==(const SortProblem&) const = default;
};

}  // namespace gex::problems
