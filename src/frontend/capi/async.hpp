#pragma once
// A thread that runs one program's asynchronous calls, in order.

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "runtime/background/fork.hpp"

namespace gex::capi {

class AsyncQueueFull : public UserError {
 public:
  explicit AsyncQueueFull(std::size_t limit);
};

class AsyncRuns {
 public:
  AsyncRuns() : mutex_([this] { forget_parent(); }) {}
  ~AsyncRuns();  // waits for the last of them
  AsyncRuns(const AsyncRuns&) = delete;
  AsyncRuns& operator=(const AsyncRuns&) = delete;

  // Exceptions of the run are logged. AsyncQueueFull if `limit` runs are queued.
  void add(std::function<void()> run, std::size_t limit);

 private:
  void work();
  // In a forked child: the thread does not exist, and queued runs belong to the parent.
  void forget_parent();

  runtime::ForkSafeMutex mutex_;
  runtime::ForkSafeCondition changed_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::unique_ptr<std::thread> thread_;  // starts with the first call
};

}  // namespace gex::capi
