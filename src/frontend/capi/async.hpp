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
  ~AsyncRuns();  // after the last of them
  AsyncRuns(const AsyncRuns&) = delete;
  AsyncRuns& operator=(const AsyncRuns&) = delete;

  // What it throws when it runs is logged. AsyncQueueFull if `limit` runs wait.
  void add(std::function<void()> run, std::size_t limit);

 private:
  void work();
  // In a forked child: the thread is not there, and what waits is the parent's to run.
  void forget_parent();

  runtime::ForkSafeMutex mutex_;
  runtime::ForkSafeCondition changed_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::unique_ptr<std::thread> thread_;  // starts with the first call
};

}  // namespace gex::capi
