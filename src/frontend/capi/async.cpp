#include "frontend/capi/async.hpp"

#include <mutex>
#include <utility>

#include "base/log.hpp"

namespace gex::capi {

namespace {

void run_and_log(const std::function<void()>& run) noexcept {
  try {
    run();
  } catch (const std::exception& error) {
    log(LogArea::run, LogLevel::error, "the callback of an asynchronous run threw: ", error.what());
  } catch (...) {
    log(LogArea::run, LogLevel::error,
        "the callback of an asynchronous run threw an unknown exception");
  }
}

}  // namespace

AsyncQueueFull::AsyncQueueFull(std::size_t limit)
    : UserError(ErrorCode::invalid_argument,
                str(limit,
                    " asynchronous runs of this program are already queued (async_limit); "
                    "start more after some callbacks were called")) {}

AsyncRuns::~AsyncRuns() {
  if (thread_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_->notify_one();
  thread_->join();
}

void AsyncRuns::add(std::function<void()> run, std::size_t limit) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= limit) throw AsyncQueueFull(limit);
    waiting_.push_back(std::move(run));
    if (thread_ == nullptr) thread_ = std::make_unique<std::thread>([this] { work(); });
  }
  changed_->notify_one();
}

void AsyncRuns::forget_parent() {
  static_cast<void>(thread_.release());  // can neither be joined nor destroyed here
  waiting_.clear();
  changed_.renew();
}

void AsyncRuns::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_->wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::function<void()> run = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    run_and_log(run);
    lock.lock();
  }
}

}  // namespace gex::capi
