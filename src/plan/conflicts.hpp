#pragma once
// Which steps of a run must stay in order because they access the same memory.

#include <cstddef>
#include <map>
#include <vector>

#include "plan/streams.hpp"
#include "program/program.hpp"

namespace gex::plan {

inline std::size_t index(int i) { return static_cast<std::size_t>(i); }

// Calls `visit(first, last)` for each sequence of device steps of a segment.
template <class Visit>
void for_each_run(const std::vector<program::Step>& steps, Visit visit) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!is_device_step(steps[i])) continue;
    const std::size_t first = i;
    while (i < steps.size() && is_device_step(steps[i])) ++i;
    visit(first, i);
  }
}

// Finds the earlier steps of a run that access the same memory as a given step, if either of the
// two writes it.
class Conflicts {
 public:
  explicit Conflicts(const program::Program& program) : program_(program) {}

  // For step `i`; must be called for every step of the run in order.
  std::vector<int> of(const std::vector<program::Step>& run, int i);

 private:
  struct Access {
    int step;
    program::BufferId buffer;
    bool write;
  };
  // Whether one buffer provably ends before the other begins, in the same memory.
  bool apart(program::BufferId a, program::BufferId b) const;

  const program::Program& program_;
  std::map<program::BufferId, std::vector<Access>> accesses_;  // by root
};

}  // namespace gex::plan
