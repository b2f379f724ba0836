#pragma once
// Mutexes that a forked child may need. All of them are locked before a fork, so that none stays
// locked in the child by a thread that does not exist there. They must not be nested.

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

// A condition variable for a ForkSafeMutex. Threads that waited when the process forked do not
// exist in the child, but the condition variable still counts them: the child calls renew().
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
