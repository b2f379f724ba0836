#pragma once
// Loop kernels. Elementwise kernels run a point in each thread, or several neighbouring points with
// wide loads. Kernels with long inner loops or locals run a point in a team: a warp where all loops
// are short, else a block. Reductions down columns run 32 neighbouring points in a block.
//
// Stores that must happen in the order of the points: where points that differ in some index never
// meet (rows added to rows of a table), each value of that index has a thread that runs its points
// in order. Otherwise a block computes 256 points at once, and each thread does those stores whose
// place it owns, in order. What is left runs on one thread.

#include <vector>

#include "loop/kernel.hpp"

namespace gex::backend::cuda {

inline constexpr int kBlock = 256;  // threads of a block, but for Mode::one_thread

enum class Mode { points, teams, columns, lanes, owners, one_thread };

Mode mode_of(const loop::Kernel& kernel);

Dim points_of(const std::vector<loop::Range>& ranges);
// The most iterations that one stage has at a grid point; DimRange::kInf if they depend on the
// point.
Dim inner_points(const loop::Kernel& kernel);
// Whether a store happens in the order of the grid's points.
bool needs_order(const loop::Kernel& kernel, const loop::Store& store);
// Grid indices that are an index of every ordered store as they are: points that differ in one of
// them store to different places.
std::vector<loop::Range> separating_ranges(const loop::Kernel& kernel);
// A kernel whose every access is at the linear index of its grid, or at a place that all points
// share: the same over one range. Other kernels as they are.
loop::Kernel with_flat_grid(const loop::Kernel& kernel);

}  // namespace gex::backend::cuda
