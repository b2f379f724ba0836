#include "runtime/trace.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>

namespace gex::runtime {

namespace {

// Chunks of a step with a smaller gap between them count as one event.
constexpr std::int64_t kShortGap = 2000;
// The number of threads may be raised while a call runs: reserve more than needed.
constexpr int kLeastWorkers = 256;

std::mutex g_mutex;
std::shared_ptr<TraceSink>& stored_sink() {
  static std::shared_ptr<TraceSink> sink;
  return sink;
}

}  // namespace

std::atomic<bool> detail::g_tracing{false};

std::shared_ptr<TraceSink> trace_sink() {
  const std::scoped_lock lock(g_mutex);
  return stored_sink();
}

void set_trace_sink(std::shared_ptr<TraceSink> sink) {
  const std::scoped_lock lock(g_mutex);
  stored_sink() = std::move(sink);
  detail::g_tracing.store(stored_sink() != nullptr, std::memory_order_relaxed);
}

CallTrace::CallTrace(int workers)
    : begin(now()), of_worker_(static_cast<std::size_t>(std::max(workers, kLeastWorkers)) + 1) {}

std::int64_t CallTrace::now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

void CallTrace::add(const void* step, int worker, std::int64_t from, std::int64_t to) {
  const auto at = static_cast<std::size_t>(worker + 1);
  if (at >= of_worker_.size()) return;
  std::vector<TraceEvent>& events = of_worker_[at];
  if (!events.empty() && events.back().step == step && from - events.back().end < kShortGap) {
    events.back().end = to;
    return;
  }
  events.push_back({step, worker, from, to});
}

std::vector<TraceEvent> CallTrace::events() const {
  std::vector<TraceEvent> all;
  for (const std::vector<TraceEvent>& events : of_worker_)
    all.insert(all.end(), events.begin(), events.end());
  std::ranges::stable_sort(all, {}, &TraceEvent::begin);
  return all;
}

}  // namespace gex::runtime
