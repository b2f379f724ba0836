#pragma once
// Start and end times of the steps of one call, for reports and trace files. Nothing is recorded
// unless a sink is set; then every call of the process is recorded.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "program/program.hpp"

namespace gex::runtime {

struct TraceEvent {
  static constexpr int kHost = -1;  // `worker` for host work on the calling thread
  const void* step = nullptr;       // the Launch, Copy, Fill or Call of the Program, or HostWork
  int worker = 0;                   // a thread, or a stream of a device
  std::int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
};

// What the host does in a call besides steps: the addresses stand for steps in events.
struct HostWork {
  static constexpr char enqueue = 'e';  // steps for a device
  static constexpr char wait = 'w';     // until the device has run them
};

class CallTrace {
 public:
  explicit CallTrace(int workers);

  static std::int64_t now();
  // Calls with the same worker must not overlap. Adjacent chunks of one step become one event.
  void add(const void* step, int worker, std::int64_t begin, std::int64_t end);
  std::vector<TraceEvent> events() const;  // by begin

  std::int64_t begin = 0, end = 0;                  // of the call
  std::vector<std::pair<Dim, std::int64_t>> sizes;  // values of the Program's symbols

 private:
  std::vector<std::vector<TraceEvent>> of_worker_;  // the host's first
};

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // After a call that did not fail; from any thread.
  virtual void take(const std::shared_ptr<const program::Program>& program, CallTrace trace) = 0;
};

namespace detail {
extern std::atomic<bool> g_tracing;
}

inline bool tracing() { return detail::g_tracing.load(std::memory_order_relaxed); }
std::shared_ptr<TraceSink> trace_sink();
void set_trace_sink(std::shared_ptr<TraceSink> sink);  // null: none

}  // namespace gex::runtime
