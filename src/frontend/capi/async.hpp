#pragma once
// A thread that runs one program's asynchronous calls, in order.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gex::capi {

class AsyncRuns {
 public:
  AsyncRuns() = default;
  ~AsyncRuns();  // after the last of them
  AsyncRuns(const AsyncRuns&) = delete;
  AsyncRuns& operator=(const AsyncRuns&) = delete;

  void add(std::function<void()> run);  // must not throw when it runs

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::thread thread_;  // starts with the first call
};

}  // namespace gex::capi
