#include "runtime/session/run_control.hpp"

#include <utility>

namespace gex::runtime {

namespace {
thread_local RunControl* current = nullptr;
}  // namespace

void RunControl::on_iteration() {
  check();
  if (!poll) return;
  const Clock::time_point now = Clock::now();
  if (now - last_poll_ < kPollInterval) return;
  last_poll_ = now;
  poll();
}

void RunControl::stop_cancelled() {
  throw RunStopped(RunStopped::Why::cancelled,
                   "the run was cancelled; inputs that it writes may be partly written");
}

void RunControl::stop_at_deadline() {
  throw RunStopped(RunStopped::Why::deadline,
                   "the run exceeded its time limit and was stopped; inputs that it writes "
                   "may be partly written");
}

ControlScope::ControlScope(RunControl* control) : saved_(std::exchange(current, control)) {}
ControlScope::~ControlScope() { current = saved_; }

RunControl* current_control() { return current; }

}  // namespace gex::runtime
