#pragma once
// Launches that do not depend on each other, put side by side so that a device can run them as one:
// projections of the same value, norms of several heads. A launch may move forward past launches
// that it does not depend on. A small launch that only those after it wait for (the norm before
// projections) can be computed by each of their blocks instead of being a launch of its own.

#include <cstdint>
#include <functional>

#include "program/program.hpp"

namespace gex::plan {

struct MergeOptions {
  // Whether the backend can run the launches of this code beside others.
  std::function<bool(const program::Launch&)> can_be_merged;
  // Launches of more blocks than this fill the device alone; they are merged only where neither
  // needs memory of its own on a multiprocessor.
  std::int64_t small_grid = 0;
};

// Sets Launch::with_previous and Launch::repeated. Programs with several streams are left alone.
void merge_launches(program::Program& program, const MergeOptions& options);

}  // namespace gex::plan
