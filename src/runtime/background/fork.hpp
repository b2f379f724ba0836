#pragma once
// Mutexes that a forked child may need. Before a fork all of them are taken, so none is left locked
// in the child by a thread that does not exist there. They must never be held one inside another.

#include <condition_variable>
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

// A condition to wait for with a ForkSafeMutex. Threads that waited when the process forked are not
// there in the child, but the condition would go on waiting for them: the child calls renew().
class ForkSafeCondition {
 public:
  ForkSafeCondition() : condition_(new std::condition_variable_any) {}
  ~ForkSafeCondition() { delete condition_; }
  ForkSafeCondition(const ForkSafeCondition&) = delete;
  ForkSafeCondition& operator=(const ForkSafeCondition&) = delete;

  std::condition_variable_any* operator->() { return condition_; }
  void renew() { condition_ = new std::condition_variable_any; }  // the old one can't be destroyed

 private:
  std::condition_variable_any* condition_;
};

}  // namespace gex::runtime
