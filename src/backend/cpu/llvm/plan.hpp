#pragma once
// Decides, without any LLVM, how a kernel's loops become vector loops. Everything that fixes the
// order of a reduction is decided here from the generic kernel, so static code (the same kernel
// with some sizes known) folds in the same order.

#include <cstdint>
#include <utility>
#include <vector>

#include "loop/kernel.hpp"

namespace gex::codegen {

struct StagePlan {
  // The loop whose iterations are lanes: a position in the stage's domain loops followed by its
  // reduce loops; -1: none. It runs innermost of its kind.
  int vector_loop = -1;
  // With lanes along a reduce loop: how many vectors of partial accumulators take turns.
  int partials = 1;
  // The reduction rounds: each accumulator takes kBlockSteps elements and is then merged into one
  // of f64.
  bool blocked = false;
};

struct KernelPlan {
  // Lanes are neighbouring points of the last grid axis, in every stage; otherwise points are
  // visited one by one and each stage has its own vector loop.
  bool lanes_are_points = false;
  // Vectors side by side in lanes-as-points code: independent chains, longer runs of memory. Not a
  // matter of bits: such lanes never meet.
  int vectors = 1;
  // Some access is strided along the lanes but contiguous along the grid axis before: a block of
  // rows is walked for each vector, so that every cache line is used up while it is near.
  bool tiled = false;
  std::vector<StagePlan> stages;
};

KernelPlan make_plan(const loop::Kernel& kernel, int lanes);

// Without stores to locals that no stage loads. The layout of the locals stays.
loop::Kernel drop_dead_stores(const loop::Kernel& kernel);

// Neighbouring loops that all accesses walk as one become one: [s0, s1] elementwise is one long
// loop of s0*s1.
loop::Kernel merge_loops(const loop::Kernel& kernel);

// The kernel with some size symbols replaced by numbers, in every extent, shape and index.
loop::Kernel specialise(const loop::Kernel& kernel,
                        const std::vector<std::pair<Dim, std::int64_t>>& constants);

// Elements that an accumulator takes before it is merged into a wider one. The error of a sum grows
// with it; merging takes some ten instructions.
inline constexpr std::int64_t kBlockSteps = 16;
// Locals that lanes-as-points code can keep one vector for each element of: few, constant in
// number.
inline constexpr std::int64_t kMaxLaneLocals = 64;
// Loads of lanes this far apart at most are picked out of whole vectors, not gathered.
inline constexpr std::int64_t kMaxVectorStep = 4;

}  // namespace gex::codegen
