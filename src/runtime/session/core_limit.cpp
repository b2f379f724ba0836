#include "runtime/session/core_limit.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "runtime/background/fork.hpp"

namespace gex::runtime {

namespace {

struct Limits {
  ForkSafeMutex mutex;
  std::unordered_map<std::int64_t, CoreLimit> of_stream;
  CoreLimit of_device;
  std::atomic<bool> ever_set{false};  // most processes never set a limit: their calls take no lock
  static Limits& get() {
    static Limits* limits = new Limits;  // calls may run after static destructors
    return *limits;
  }
};

thread_local std::int64_t current_stream = 0;

}  // namespace

void set_current_stream(std::int64_t stream) { current_stream = stream; }

LimitScope::LimitScope(int workers) : saved_(current_stream) {
  // A separate number for each limit, outside the range that callers use.
  constexpr std::int64_t kFirst = std::int64_t{-1} << 40;
  const std::int64_t stream = kFirst - workers;
  const CoreLimit limit{workers, workers};
  if (stream_limit(stream) != limit) set_stream_limit(stream, limit);
  current_stream = stream;
}

LimitScope::~LimitScope() { current_stream = saved_; }

void set_stream_limit(std::int64_t stream, std::optional<CoreLimit> limit) {
  Limits& limits = Limits::get();
  const std::lock_guard lock(limits.mutex);
  if (limit)
    limits.of_stream[stream] = *limit;
  else
    limits.of_stream.erase(stream);
  limits.ever_set.store(true);
}

void set_device_limit(CoreLimit limit) {
  Limits& limits = Limits::get();
  const std::lock_guard lock(limits.mutex);
  limits.of_device = limit;
  limits.ever_set.store(true);
}

CoreLimit stream_limit(std::int64_t stream) {
  Limits& limits = Limits::get();
  if (!limits.ever_set.load()) return {};
  const std::lock_guard lock(limits.mutex);
  const auto found = limits.of_stream.find(stream);
  return found == limits.of_stream.end() ? limits.of_device : found->second;
}

CoreLimit device_limit() {
  Limits& limits = Limits::get();
  const std::lock_guard lock(limits.mutex);
  return limits.of_device;
}

CoreLimit current_limit() { return stream_limit(current_stream); }

}  // namespace gex::runtime
