#pragma once
// Places independent launches next to each other so that a device can run them as one kernel, or
// calls of a library at the same time: projections of the same value, norms of several heads. A
// launch may move forward past launches that it does not depend on.

#include <cstdint>
#include <functional>

#include "program/program.hpp"

namespace gex::plan {

struct MergeOptions {
  // Whether the backend can merge the launches of this code with others.
  std::function<bool(const program::Launch&)> can_be_merged;
  // Whether the launch is a call of a library; null: none is.
  std::function<bool(const program::Launch&)> is_library;
  std::int64_t multiprocessors = 0;
  // Launches with more blocks than this fill the device; they are merged only if neither needs
  // much shared memory.
  std::int64_t small_grid = 0;
  std::size_t most_parts = 6;  // of one kernel
  // Whether a launch can read the buffer at a position from shared memory, where a small launch
  // that its blocks repeat wrote it (repeat_launches.hpp); null: nothing is repeated.
  std::function<bool(const program::Launch&, std::size_t)> can_read_repeated;
};

// Sets Launch::with_previous. Programs with several streams are left alone.
void merge_launches(program::Program& program, const MergeOptions& options);

}  // namespace gex::plan
