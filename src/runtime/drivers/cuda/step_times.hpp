#pragma once
// When each step of a traced call begins and ends on the device: events of the device beside the
// steps, on their streams. Inside a graph they are nodes of it, reached whenever it runs.

#include <cstdint>
#include <map>
#include <vector>

#include "nvidia/api.hpp"
#include "runtime/trace.hpp"

namespace gex::runtime::cuda {

struct CudaOp;

class StepTimes {
 public:
  // `in_graph`: the steps are being captured.
  StepTimes(const nvidia::DriverApi& api, bool in_graph) : api_(api), in_graph_(in_graph) {}
  ~StepTimes();
  StepTimes(const StepTimes&) = delete;
  StepTimes& operator=(const StepTimes&) = delete;

  void begin(const CudaOp& op, nvidia::Stream stream);
  void end(const CudaOp& op, nvidia::Stream stream);
  // The stream waits for another one: its next step does not begin where its last one ended.
  void wait(int stream) { last_.erase(stream); }

  // Adds the steps to a trace, once the device has reached all events. `origin` was reached at
  // `start` of the host's clock.
  void give(nvidia::Event origin, std::int64_t start, CallTrace& trace) const;

 private:
  struct Step {
    const void* step;
    int stream;
    nvidia::Event begin, end;
  };
  nvidia::Event record(nvidia::Stream stream);

  const nvidia::DriverApi& api_;
  const bool in_graph_;
  std::vector<nvidia::Event> events_;
  std::map<int, nvidia::Event> last_;  // by stream of the Program
  std::vector<Step> steps_;
};

// A traced call: it begins with an idle stream, and the host waits for its end.
class TracedCall {
 public:
  TracedCall(const nvidia::DriverApi& api, nvidia::Stream stream, CallTrace& trace);
  ~TracedCall();
  TracedCall(const TracedCall&) = delete;
  TracedCall& operator=(const TracedCall&) = delete;

  void wait();  // after all steps are enqueued
  void give(const StepTimes& times) const { times.give(origin_, start_, trace_); }

 private:
  const nvidia::DriverApi& api_;
  const nvidia::Stream stream_;
  CallTrace& trace_;
  nvidia::Event origin_ = nullptr;
  std::int64_t start_ = 0;
};

}  // namespace gex::runtime::cuda
