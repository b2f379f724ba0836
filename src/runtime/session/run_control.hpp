#pragma once
// Stops a run before its end: on request of another thread, at a deadline, or when its caller's
// poll function throws (Python's Ctrl-C). A run checks between batches and at each loop iteration;
// without a RunControl that costs one comparison with null.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace gex::runtime {

class RunStopped : public UserError {
 public:
  enum class Why : std::uint8_t { cancelled, deadline };
  RunStopped(Why why, const std::string& message)
      : UserError(ErrorCode::device_error, message), why_(why) {}
  Why why() const { return why_; }

 private:
  Why why_;
};

class RunControl {
 public:
  using Clock = std::chrono::steady_clock;

  // Set before the run.
  const std::atomic<bool>* cancelled = nullptr;
  std::optional<Clock::time_point> deadline;
  // Called at loop iterations, at most once per kPollInterval; throws to stop the run.
  std::function<void()> poll;

  // Throws RunStopped.
  void check() const {
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) stop_cancelled();
    if (deadline && Clock::now() >= *deadline) stop_at_deadline();
  }
  // Called at each loop iteration: check(), and poll() if the interval has passed.
  void on_iteration();

  static constexpr std::chrono::milliseconds kPollInterval{50};

 private:
  [[noreturn]] static void stop_cancelled();
  [[noreturn]] static void stop_at_deadline();
  Clock::time_point last_poll_ = Clock::now();
};

// Runs started by this thread inside the scope use this control.
class ControlScope {
 public:
  explicit ControlScope(RunControl* control);
  ~ControlScope();
  ControlScope(const ControlScope&) = delete;
  ControlScope& operator=(const ControlScope&) = delete;

 private:
  RunControl* saved_;
};

// The control of the thread's innermost scope; null if there is none.
RunControl* current_control();

}  // namespace gex::runtime
