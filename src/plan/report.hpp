#pragma once
// Readable report on the memory of a Program for one set of sizes: offset, lifetime and size of
// every temporary, which ones share memory, the arena size, the lower bound, and why the two
// differ.

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
    std::vector<program::BufferId> sharing;  // rows that use the same bytes at other times
  };
  std::vector<Row> rows;                 // by offset, then by birth
  std::vector<program::BufferId> later;  // placed when a size is bound: not part of this report
  std::int64_t total = 0, lower_bound = 0, without_reuse = 0;
  std::int64_t scratch = 0;  // of kernels, for each worker: behind the temporaries, not in `total`
  Strategy strategy = Strategy::by_start;

  double ratio() const;      // total / lower_bound; 1 if no memory is needed
  std::string why() const;   // "" within 5 % of the lower bound, else the reason for the difference
  std::string text() const;  // the whole report, one line per row
};

// `value_of` knows only the symbols of the Program's inputs. `reuse`: false plans like a session
// with memory reuse switched off.
MemoryReport memory_report(const program::Program& program,
                           const std::function<std::optional<std::int64_t>(Dim)>& value_of,
                           bool reuse = true);

}  // namespace gex::plan
