#pragma once
// Mutexes that a forked child may need. Before a fork all of them are taken, so none is left locked
// in the child by a thread that does not exist there. They must never be held one inside another.

#include <functional>
#include <mutex>

namespace gex::runtime {

class ForkSafeMutex {
 public:
  // `in_child` runs in a forked child, where the calling thread is the only one.
  explicit ForkSafeMutex(std::function<void()> in_child = nullptr);
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend struct ForkRegistry;
  std::mutex mutex_;
  std::function<void()> in_child_;
};

}  // namespace gex::runtime
