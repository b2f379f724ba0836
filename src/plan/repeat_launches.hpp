#pragma once
// Small launches that every block of their readers repeats (Launch::recomputed): a norm in front of
// products, whose blocks have requested their weights meanwhile; the rotation of a key in front of
// its write to a cache. Their own launch is then not needed, and what it waited for is what its
// readers wait for, so these may join earlier groups.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "program/program.hpp"

namespace gex::plan {

// Steps of a run that become one kernel, by number; those that are repeated are the first.
using LaunchGroup = std::vector<int>;

struct RepeatOptions {
  // Whether the launch can read the buffer at a position from shared memory.
  std::function<bool(const program::Launch&, std::size_t)> can_read;
  std::function<bool(const program::Launch&)> can_be_merged;
  // Whether a step can join a group.
  std::function<bool(const LaunchGroup&, int)> fits;
  std::size_t most_parts = 6;
  int reach = 6;  // groups that a launch may be moved ahead
};

// `earlier`: by step, the earlier steps of the run that access the same memory. Changes the
// launches of the run and the groups; groups may become empty.
void repeat_launches(const program::Program& program, std::span<program::Step> run,
                     const std::vector<std::vector<int>>& earlier, std::vector<LaunchGroup>& groups,
                     const RepeatOptions& options);

}  // namespace gex::plan
