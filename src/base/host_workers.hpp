#pragma once
// Threads that the program around gex keeps for loops of its own, and keeps awake between them:
// PyTorch's, on whose cores a second set of waiting threads would only be in the way.
//
// Work too small to wake a sleeping thread for is shared with them as long as they come at once.
// That is measured in every loop: after a wait they are left alone, the longer the wait was. Only
// the thread that made the offer uses them, since such threads serve their caller.

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/thread_pool.hpp"

namespace gex {

class HostWorkers {
 public:
  static HostWorkers& global();

  // By the thread that will use them.
  void offer(ExternalWorkers workers);

  // Spreads [0, n) evenly over the threads as a Region of a ThreadPool does, with workers numbered
  // below `most`. False, and nothing is done, where no such threads are to be had at once.
  bool run(std::int64_t n, int most, ThreadPool::Body body, void* context);

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::atomic<std::uintptr_t> user_{0};  // the thread that offered; 0: nobody, or a forked child
  // Touched by that thread only.
  std::int64_t caller_done_ = 0;  // when it had nothing left to do in the present loop
  std::int64_t skipped_ = 0;      // loops still to be done without them
};

}  // namespace gex
