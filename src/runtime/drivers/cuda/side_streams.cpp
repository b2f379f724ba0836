#include "runtime/drivers/cuda/side_streams.hpp"

#include <algorithm>

#include "runtime/drivers/cuda/cuda_device.hpp"

namespace gex::runtime::cuda {

namespace {

bool contains(const std::vector<int>& numbers, int number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

void insert(std::vector<int>& numbers, int number) {
  if (!contains(numbers, number)) numbers.push_back(number);
}

}  // namespace

SideStreams::~SideStreams() {
  for (const auto& [number, stream] : streams_) api_.stream_destroy(stream);
  for (const auto* events : {&events_, &ends_})
    for (const auto& [number, event] : *events) api_.event_destroy(event);
}

Stream SideStreams::stream(int number) {
  Stream& stream = streams_[number];
  if (stream == nullptr)
    check(api_, api_.stream_create(&stream, kStreamNonBlocking), "making a stream");
  return stream;
}

Event SideStreams::made(std::map<int, Event>& events, int number) {
  Event& event = events[number];
  if (event == nullptr)
    check(api_, api_.event_create(&event, kEventDisableTiming), "making an event");
  return event;
}

Event SideStreams::event(int number) { return made(events_, number); }
Event SideStreams::end_of(int stream) { return made(ends_, stream); }

void SideStreams::synchronise() noexcept {
  for (const auto& [number, stream] : streams_) api_.stream_synchronize(stream);
}

StreamFork::StreamFork(const DriverApi& api, SideStreams& side, Stream main,
                       std::span<const CudaOp> steps, int first)
    : api_(api), side_(side), main_(main), first_(first) {
  side_.used_.clear();
  side_.recorded_.clear();
  for (const CudaOp& step : steps)
    if (step.stream != 0) insert(side_.used_, step.stream);
  if (side_.used_.empty()) return;
  check(api_, api_.event_record(side_.end_of(0), main_), "recording the beginning of a run");
  for (int number : side_.used_)
    check(api_, api_.stream_wait(stream(number), side_.end_of(0), 0),
          "waiting for the beginning of a run");
}

Stream StreamFork::stream(int number) {
  return number == 0 ? main_ : side_.stream(first_ + number);
}

void StreamFork::record(int event, int number) {
  check(api_, api_.event_record(side_.event(event), stream(number)), "recording an event");
  insert(side_.recorded_, event);
}

void StreamFork::wait(int event, int number) {
  if (!contains(side_.recorded_, event)) return;
  check(api_, api_.stream_wait(stream(number), side_.event(event), 0), "waiting for an event");
}

void StreamFork::join() {
  for (int number : side_.used_) {
    check(api_, api_.event_record(side_.end_of(number), stream(number)),
          "recording the end of a run");
    check(api_, api_.stream_wait(main_, side_.end_of(number), 0), "waiting for the end of a run");
  }
}

}  // namespace gex::runtime::cuda
