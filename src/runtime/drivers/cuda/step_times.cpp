#include "runtime/drivers/cuda/step_times.hpp"

#include <cmath>

#include "runtime/drivers/cuda/cuda_device.hpp"

namespace gex::runtime::cuda {

namespace {

std::int64_t nanoseconds_between(const DriverApi& api, Event from, Event to) {
  float milliseconds = 0;
  check(api, api.event_elapsed(&milliseconds, from, to), "reading the time of an event");
  return std::llround(static_cast<double>(milliseconds) * 1e6);
}

}  // namespace

StepTimes::~StepTimes() {
  for (Event event : events_) api_.event_destroy(event);
}

Event StepTimes::record(Stream stream) {
  Event event = nullptr;
  check(api_, api_.event_create(&event, 0), "making an event");
  events_.push_back(event);
  check(api_, api_.event_record_with(event, stream, in_graph_ ? kEventRecordExternal : 0),
        "recording the time of a step");
  return event;
}

void StepTimes::begin(const CudaOp& op, Stream stream) {
  Event& last = last_[op.stream];
  if (last == nullptr) last = record(stream);
  steps_.push_back({op.step, op.stream, last, nullptr});
}

void StepTimes::end(const CudaOp& op, Stream stream) {
  steps_.back().end = last_[op.stream] = record(stream);
}

void StepTimes::give(Event origin, std::int64_t start, CallTrace& trace) const {
  for (const Step& step : steps_)
    trace.add(step.step, step.stream, start + nanoseconds_between(api_, origin, step.begin),
              start + nanoseconds_between(api_, origin, step.end));
}

TracedCall::TracedCall(const DriverApi& api, Stream stream, CallTrace& trace)
    : api_(api), stream_(stream), trace_(trace) {
  check(api_, api_.stream_synchronize(stream_), "waiting before a traced call");
  check(api_, api_.event_create(&origin_, 0), "making an event");
  start_ = CallTrace::now();
  const Result result = api_.event_record(origin_, stream_);
  if (result != 0) api_.event_destroy(origin_);
  check(api_, result, "recording the beginning of a traced call");
}

TracedCall::~TracedCall() { api_.event_destroy(origin_); }

void TracedCall::wait() {
  const std::int64_t enqueued = CallTrace::now();
  trace_.add(&HostWork::enqueue, TraceEvent::kHost, start_, enqueued);
  check(api_, api_.stream_synchronize(stream_), "waiting for a traced call");
  trace_.add(&HostWork::wait, TraceEvent::kHost, enqueued, CallTrace::now());
}

}  // namespace gex::runtime::cuda
