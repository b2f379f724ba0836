#include "plan/conflicts.hpp"

namespace gex::plan {

using program::BufferId;

std::vector<int> Conflicts::of(const std::vector<program::Step>& run, int i) {
  std::vector<int> found;
  const auto touch = [&](BufferId id, bool write) {
    std::vector<Access>& earlier = accesses_[program::root_of(program_, id)];
    for (const Access& access : earlier)
      if (access.step != i && (write || access.write) && !apart(access.buffer, id))
        found.push_back(access.step);
    earlier.push_back({i, id, write});
  };
  for (BufferId id : program::reads_of(run[index(i)])) touch(id, false);
  for (BufferId id : program::writes_of(run[index(i)])) touch(id, true);
  return found;
}

bool Conflicts::apart(BufferId a, BufferId b) const {
  if (a == b) return false;
  const auto ends_before = [&](BufferId first, BufferId second) {
    const Dim end =
        program::offset_from_root(program_, first) + program_.buffers[index(first)].bytes;
    return provably_nonnegative(program::offset_from_root(program_, second) - end);
  };
  return ends_before(a, b) || ends_before(b, a);
}

}  // namespace gex::plan
