// A call whose launches are timed: outside of any graph, where an event can stand between them.

#include <cmath>

#include "runtime/drivers/cuda/cuda_device.hpp"
#include "runtime/trace.hpp"

namespace gex::runtime::cuda {

namespace {

class Events {
 public:
  Events(const DriverApi& api, std::size_t count) : api_(api) {
    events_.reserve(count);
    for (std::size_t k = 0; k < count; ++k) {
      Event event = nullptr;
      check(api_, api_.event_create(&event, 0), "making an event");
      events_.push_back(event);
    }
  }
  ~Events() {
    for (Event event : events_) api_.event_destroy(event);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  void record(std::size_t k, Stream stream) const {
    check(api_, api_.event_record(events_[k], stream), "recording an event");
  }
  std::int64_t since_first(std::size_t k) const {
    float milliseconds = 0;
    check(api_, api_.event_elapsed(&milliseconds, events_[0], events_[k]), "reading an event");
    return std::llround(static_cast<double>(milliseconds) * 1e6);
  }

 private:
  const DriverApi& api_;
  std::vector<Event> events_;
};

}  // namespace

void CudaDevice::issue_traced(const std::vector<CudaOp>& ops, const Replay& replay,
                              CudaQueue& queue) const {
  const Events events(api_, ops.size() + 1);
  // What is enqueued already is not part of the first step.
  check(api_, api_.stream_synchronize(queue.stream()), "waiting before a traced call");
  const std::int64_t start = CallTrace::now();
  events.record(0, queue.stream());
  for (std::size_t k = 0; k < ops.size(); ++k) {
    // On one stream, so that each step's time is its own: there is nothing to wait for.
    if (!ops[k].is_event()) issue(ops[k], replay.block, queue, queue.stream(), false);
    events.record(k + 1, queue.stream());
  }
  check(api_, api_.stream_synchronize(queue.stream()), "waiting for a traced call");
  std::int64_t before = 0;
  for (std::size_t k = 0; k < ops.size(); ++k) {
    const std::int64_t after = events.since_first(k + 1);
    if (!ops[k].is_event()) replay.trace->add(ops[k].step, 0, start + before, start + after);
    before = after;
  }
  replay.tally->single_launches += num_steps(ops);
}

}  // namespace gex::runtime::cuda
