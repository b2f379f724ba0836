#pragma once
// How a loop kernel's points are assigned to threads. Elementwise kernels: one point per thread, or
// several neighbouring points with vector loads. Kernels with long inner loops or locals: one point
// per team, which is a warp if all loops are short, else a block. Reductions over rows (column
// sums): 32 neighbouring points per block.
//
// Stores that must happen in the order of the points: if points that differ in some index never
// store to the same element (rows added to rows of a table), one thread runs all points of one
// value of that index in order. Otherwise a block computes 256 points at once, and each thread
// executes, in order, the stores to the elements that it owns. All other kernels run on one thread.

#include <vector>

#include "loop/kernel.hpp"

namespace gex::backend::cuda {

inline constexpr int kBlock = 256;  // threads per block, except for Mode::one_thread

enum class Mode { points, teams, columns, lanes, owners, one_thread };

Mode mode_of(const loop::Kernel& kernel);

Dim points_of(const std::vector<loop::Range>& ranges);
// The largest number of iterations of a stage at one grid point; DimRange::kInf if it depends on
// the point.
Dim inner_points(const loop::Kernel& kernel);
// Whether a store happens in the order of the grid's points.
bool needs_order(const loop::Kernel& kernel, const loop::Store& store);
// Grid indices that appear unchanged as an index of every ordered store: points that differ in one
// of them store to different elements.
std::vector<loop::Range> separating_ranges(const loop::Kernel& kernel);
// If every access of a kernel is at the linear index of its grid, or at an element that all points
// share, returns the same kernel over a single range. Returns other kernels unchanged.
loop::Kernel with_flat_grid(const loop::Kernel& kernel);

}  // namespace gex::backend::cuda
