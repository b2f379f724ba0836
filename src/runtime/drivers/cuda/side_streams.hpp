#pragma once
// The streams of a Program on a CUDA device. Stream 0 is the one that the call runs on; the others
// belong to the queue. At the start of a run of steps they wait for stream 0, and at its end stream
// 0 waits for them; this also makes them join and leave a capture.

#include <map>
#include <span>
#include <vector>

#include "nvidia/api.hpp"

namespace gex::runtime::cuda {

struct CudaOp;

// Streams and events of one queue, made on first use.
class SideStreams {
 public:
  explicit SideStreams(const nvidia::DriverApi& api) : api_(api) {}
  ~SideStreams();
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

  nvidia::Stream stream(int number);  // number > 0
  // Bodies of conditional nodes are captured on streams of their own: this one and those after it
  // are stream 0 of the Program and its others, in bodies at this depth.
  static int first_of_depth(int depth) { return depth << 20; }
  nvidia::Event event(int number);   // of the Program
  nvidia::Event end_of(int stream);  // recorded where the run ends on that stream
  void synchronise() noexcept;       // after a failed call

 private:
  friend class StreamFork;
  nvidia::Event made(std::map<int, nvidia::Event>& events, int number);

  const nvidia::DriverApi& api_;
  std::map<int, nvidia::Stream> streams_;
  std::map<int, nvidia::Event> events_, ends_;
  // Of the current run; kept between runs, so that a call allocates nothing.
  std::vector<int> used_, recorded_;
};

// One run of steps: forks when made, joins at the end. `first`: SideStreams::first_of_depth.
class StreamFork {
 public:
  StreamFork(const nvidia::DriverApi& api, SideStreams& side, nvidia::Stream main,
             std::span<const CudaOp> steps, int first = 0);

  nvidia::Stream stream(int number);
  void record(int event, int stream);
  void wait(int event, int stream);  // no effect if the event was not recorded in this run
  void join();

 private:
  const nvidia::DriverApi& api_;
  SideStreams& side_;
  nvidia::Stream main_;
  const int first_;
};

}  // namespace gex::runtime::cuda
