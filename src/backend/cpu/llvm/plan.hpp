#pragma once
// Decides, without LLVM, how a kernel's loops become vector loops. Everything that determines the
// order of a reduction is decided here from the generic kernel, so static code (the same kernel
// with some sizes known) folds in the same order.

#include <cstdint>
#include <utility>
#include <vector>

#include "loop/kernel.hpp"

namespace gex::codegen {

struct StagePlan {
  // The vectorised loop: a position in the stage's domain loops followed by its reduce loops; -1:
  // none. It becomes the innermost of its kind.
  int vector_loop = -1;
  // If a reduce loop is vectorised: number of vectors of partial accumulators, used in rotation.
  int partials = 1;
  // If the reduction rounds: elements that each accumulator takes before it is merged into one of
  // f64. 0: it does not round, so there are no blocks.
  std::int64_t block_steps = 0;
};

struct KernelPlan {
  // True: lanes are neighbouring points of the last grid axis, in every stage. False: points are
  // visited one by one and each stage has its own vector loop.
  bool lanes_are_points = false;
  // If lanes are points: vectors per iteration, for independent dependency chains and longer memory
  // runs. Does not affect the bits: such lanes are never combined.
  int vectors = 1;
  // Some access is strided along the lanes but contiguous along the previous grid axis: a block of
  // rows is processed per vector, so that every cache line is fully used while it is cached.
  bool tiled = false;
  // If lanes are points: some load selects elements from whole vectors, so masks are costly.
  bool picks_elements = false;
  std::vector<StagePlan> stages;
};

KernelPlan make_plan(const loop::Kernel& kernel, int lanes);

// Removes stores to locals that no stage loads. The layout of the locals does not change.
loop::Kernel drop_dead_stores(const loop::Kernel& kernel);

// Merges neighbouring loops that all accesses traverse as one: [s0, s1] elementwise becomes one
// loop of s0*s1.
loop::Kernel merge_loops(const loop::Kernel& kernel);

// Replaces some size symbols by numbers in every extent, shape and index.
loop::Kernel specialise(const loop::Kernel& kernel,
                        const std::vector<std::pair<Dim, std::int64_t>>& constants);

// If lanes are points, the maximum size of locals that are kept as one vector per element.
inline constexpr std::int64_t kMaxLaneLocals = 1024;
// Up to this stride between lanes, elements are selected from whole vectors instead of gathered.
inline constexpr std::int64_t kMaxVectorStep = 4;

}  // namespace gex::codegen
