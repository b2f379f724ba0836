#pragma once
// What a call costs before its first step runs; measured only while somebody looks.

#include <chrono>
#include <cstdint>

namespace gex::python {

struct Overhead {
  std::int64_t parameters_ns = 0;  // are frozen parameters where they were?
  std::int64_t inputs_ns = 0;      // arguments taken and read
  std::int64_t key_ns = 0;         // sizes bound, their capture looked up
};

class OverheadClock {
 public:
  explicit OverheadClock(bool runs) : runs_(runs) {
    if (runs_) last_ = std::chrono::steady_clock::now();
  }

  // What was spent since the last one goes to `part`, the first time that it is named.
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
