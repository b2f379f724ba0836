#pragma once
// A Program's memory for one set of sizes, for people: every temporary with its place, life and
// size, who stands where it stood, the arena, the lower bound, and why the two differ if they do.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/planner.hpp"
#include "program/program.hpp"

namespace gex::plan {

struct MemoryReport {
  struct Row {
    program::BufferId buffer = -1;
    std::string name;
    std::int64_t bytes = 0, offset = 0;
    Interval life;
    std::vector<program::BufferId> sharing;  // rows that use some of the same bytes at other times
  };
  std::vector<Row> rows;                 // by offset, then by birth
  std::vector<program::BufferId> later;  // placed when a size is bound: not part of this
  std::int64_t total = 0, lower_bound = 0, without_reuse = 0;
  std::int64_t scratch = 0;  // of kernels, for each worker: behind the temporaries, not in `total`
  Strategy strategy = Strategy::by_start;

  double ratio() const;      // total / lower_bound; 1 where nothing is needed
  std::string why() const;   // "" within 5 % of the lower bound, else what keeps it from there
  std::string text() const;  // all of it, a line for each row
};

// `value_of` knows the symbols of the Program's inputs and nothing else. Without `reuse` as a
// session does it that is told not to reuse memory.
MemoryReport memory_report(const program::Program& program,
                           const std::function<std::optional<std::int64_t>(Dim)>& value_of,
                           bool reuse = true);

}  // namespace gex::plan
