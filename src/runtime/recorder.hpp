#pragma once
// The recording contract. A batch is a run of steps with no host work between them. A driver's
// Recorder receives the steps of a batch once and returns a Recording; each call replays it with
// the call's own parameter block. One interface for immediate launches and for captured graphs.
//
// The parameter block is one array of 64-bit words, laid out once for a Program: for each step its
// buffer addresses, then its sizes. Nothing else changes from call to call, so a driver that reads
// everything from the block (in host or device memory) never needs to record again.
//
//   launch: [address of each buffer] [each dim] [grid] [work] [scratch bytes]
//   copy:   [dst] [src] [bytes]
//   fill:   [dst] [bytes]

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "program/kernel_abi.hpp"
#include "program/program.hpp"
#include "program/specialiser.hpp"

namespace gex::runtime {

struct Image;
class CallTrace;
class Queue;

// A step as passed to a Recorder. `word` is the index of its first word in the block.
struct LaunchOp {
  const program::Launch* launch = nullptr;
  int number = 0;  // among all launches of the Program: index of its Callable
  int word = 0;
  int epoch = 0;  // number of binds that must run before its sizes are known
  int stream = 0;
  int threads = 0;  // maximum number of workers; 0: all
  int dims_word() const { return word + static_cast<int>(launch->buffers.size()); }
  int grid_word() const { return dims_word() + static_cast<int>(launch->dims.size()); }
  int work_word() const { return grid_word() + 1; }
  int scratch_word() const { return grid_word() + 2; }
  int end_word() const { return grid_word() + 3; }
};
struct CopyOp {
  const program::Copy* copy = nullptr;
  int word = 0;
  int stream = 0, threads = 0;
};
struct FillOp {
  const program::Fill* fill = nullptr;
  int word = 0;
  int stream = 0, threads = 0;
};
// An if or while step that is part of a batch, since its segments need no host.
struct ControlOp {
  bool loops = false;
  int word = 0;  // the address of its condition
};

// What was executed, for the session's counters.
struct Tally {
  std::int64_t launches = 0, bytes_copied = 0;
  std::int64_t recordings = 0;       // device graphs made
  std::int64_t graph_launches = 0;   // of device graphs
  std::int64_t single_launches = 0;  // of a kernel, library matmul, copy or fill outside a graph
  std::int64_t limited = 0;          // launches on fewer workers than available, because of a limit
  std::int64_t overlapped = 0;       // launches that overlapped one of another stream
};

// Scratch of the launches of one epoch: that of the first worker, and before it `stride` bytes for
// each other worker.
struct ScratchArea {
  std::byte* first = nullptr;
  std::int64_t stride = 0;
  int workers = 0;
  std::byte* of(int worker) const { return first - stride * worker; }
};

// Code of launches on a device for one set of sizes.
struct StaticDeviceCode {
  std::uint64_t number = 0;  // never given twice; 0: there is none
  program::DeviceCodes codes;
};

// Data of one call that its recordings use; valid until replay() returns.
struct Replay {
  const std::int64_t* block = nullptr;
  std::span<const std::int64_t> values;           // by slot of the Image
  std::span<const program::Callable> code;        // by launch number: the best code available
  const StaticDeviceCode* device_code = nullptr;  // null: none for these sizes
  std::span<const ScratchArea> scratch;           // by epoch
  Tally* tally = nullptr;
  CallTrace* trace = nullptr;  // null: no trace was requested
};

class Recording {
 public:
  virtual ~Recording() = default;
  // Runs the batch, or enqueues it. Called by one thread at a time for one Queue; several Queues
  // may replay one Recording at once.
  virtual void replay(Queue& queue, const Replay& replay) = 0;
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void launch(const LaunchOp& op) = 0;
  virtual void copy(const CopyOp& op) = 0;
  virtual void fill(const FillOp& op) = 0;
  // Optional: default nothing, for drivers that run all streams in program order.
  virtual void record(int /*event*/, int /*stream*/) {}
  virtual void wait(int /*event*/, int /*stream*/) {}
  // Optional, only where Loaded::records_control. The steps up to next_segment() are the first
  // segment (then; the condition of a while), those up to end_control() the second (else; the
  // body).
  virtual void begin_control(const ControlOp& /*op*/) {}
  virtual void next_segment() {}
  virtual void end_control() {}
  // Ends the batch. The Recorder can't be used afterwards.
  virtual std::unique_ptr<Recording> finish() = 0;
};

}  // namespace gex::runtime
