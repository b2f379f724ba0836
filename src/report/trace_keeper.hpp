#pragma once
// What the calls inside a report leave: times of all of them, and the events of the fastest.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/trace.hpp"

namespace gex::report {

class TraceKeeper final : public runtime::TraceSink {
 public:
  struct Kept {
    std::shared_ptr<const program::Program> program;
    runtime::CallTrace fastest;
    std::vector<runtime::CallTrace> others;  // the fastest of the other calls
    std::vector<std::int64_t> times;         // of all calls, in nanoseconds
  };
  void take(const std::shared_ptr<const program::Program>& program,
            runtime::CallTrace trace) override;
  std::optional<Kept> of(const program::Program* program) const;
  std::vector<Kept> all() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Kept> kept_;
};

// Nanoseconds of each step in the call where it took the shortest time, among the kept calls with
// the sizes of the fastest one. A thread that is interrupted lengthens steps of single calls.
std::unordered_map<const void*, std::int64_t> least_times(const TraceKeeper::Kept& kept);

}  // namespace gex::report
