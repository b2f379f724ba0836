#pragma once
// Positions in the dims of a sort launch. Strides count elements. Each operand has the strides of
// its batch axes, then that of the sorted axis.

namespace gex::kernels::sort_dims {
enum : int {
  length,  // of the sorted axis
  kept,    // how many of each row are asked for
  sizes,   // of the batch axes; then the strides of x, of each result
};
constexpr int x_strides(int rank) { return sizes + rank; }
constexpr int result_strides(int rank, int k) { return x_strides(rank) + (k + 1) * (rank + 1); }
constexpr int count(int rank, int results) { return result_strides(rank, results); }
}  // namespace gex::kernels::sort_dims
