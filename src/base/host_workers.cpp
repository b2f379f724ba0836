#include "base/host_workers.hpp"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace gex {

namespace {

// A thread that is awake begins within a microsecond or two. Whoever makes the caller wait this
// long after its own part was asleep, or had no core.
constexpr std::int64_t kWaited = 10'000;
// A wait is spread over so many loops without them that each has lost no more than this.
constexpr std::int64_t kLossOfLoop = 100;

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::uintptr_t this_thread() { return static_cast<std::uintptr_t>(pthread_self()); }

}  // namespace

HostWorkers& HostWorkers::global() {
  // Never destroyed, as the pool.
  static HostWorkers* workers = [] {
    // The other threads stay with the parent.
    pthread_atfork(nullptr, nullptr, [] { global().user_.store(0); });
    return new HostWorkers;
  }();
  return *workers;
}

void HostWorkers::offer(ExternalWorkers workers) {
  // Each task of a loop goes through here, to see when the caller's own is done.
  struct Tasks {
    ExternalWorkers::Task task;
    void* context;
    HostWorkers* host;
  };
  auto run = std::move(workers.run);
  workers.run = [this, run = std::move(run)](std::int64_t count, ExternalWorkers::Task task,
                                             void* context) {
    Tasks tasks{task, context, this};
    run(
        count,
        [](void* shared, std::int64_t k) {
          const auto& t = *static_cast<Tasks*>(shared);
          t.task(t.context, k);
          if (t.host->user_.load(std::memory_order_relaxed) == this_thread())
            t.host->caller_done_ = now();
        },
        &tasks);
  };
  pool_ = std::make_unique<ThreadPool>(std::move(workers));
  user_.store(this_thread());
}

bool HostWorkers::run(std::int64_t n, int most, ThreadPool::Body body, void* context) {
  if (user_.load(std::memory_order_relaxed) != this_thread()) return false;
  const int threads = pool_->threads();
  if (threads < 2 || threads > most) return false;
  if (skipped_ > 0) {
    --skipped_;
    return false;
  }
  ThreadPool::Region(*pool_).run(n, (n + threads - 1) / threads, body, context);
  const std::int64_t waited = now() - caller_done_;
  if (waited > kWaited) skipped_ = waited / kLossOfLoop;
  return true;
}

}  // namespace gex
