#include "frontend/capi/async.hpp"

#include <utility>

namespace gex::capi {

AsyncRuns::~AsyncRuns() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void AsyncRuns::add(std::function<void()> run) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(run));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_one();
}

void AsyncRuns::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::function<void()> run = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    run();
    lock.lock();
  }
}

}  // namespace gex::capi
