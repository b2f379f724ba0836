#pragma once
// The overhead of a call before its first step; measured only on request.

#include <chrono>
#include <cstdint>

namespace gex::python {

struct Overhead {
  std::int64_t parameters_ns = 0;  // checking frozen parameters
  std::int64_t inputs_ns = 0;      // reading the arguments
  std::int64_t key_ns = 0;         // binding sizes, looking up the capture
};

class OverheadClock {
 public:
  explicit OverheadClock(bool runs) : runs_(runs) {
    if (runs_) last_ = std::chrono::steady_clock::now();
  }

  // Adds the time since the last call of this function to `part`, the first time it is named.
  void mark(std::int64_t Overhead::* part) {
    if (!runs_ || overhead_.*part != 0) return;
    const auto now = std::chrono::steady_clock::now();
    overhead_.*part = std::chrono::nanoseconds(now - last_).count();
    last_ = now;
  }
  bool runs() const { return runs_; }
  const Overhead& overhead() const { return overhead_; }

 private:
  bool runs_;
  std::chrono::steady_clock::time_point last_;
  Overhead overhead_;
};

}  // namespace gex::python
