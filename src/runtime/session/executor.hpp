#pragma once
// Runs one call on the calling thread: walks the items of the main segments, replays batches and
// passes host steps to the Host.

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/capture/capture.hpp"
#include "runtime/session/run_control.hpp"
#include "runtime/trace.hpp"

namespace gex::runtime {

// Holds a Queue of the pool for a scope. Host code runs between suspend and resume.
class QueueLease {
 public:
  // `for_good`: never returned, because a graph of the caller uses the queue's memory.
  QueueLease(QueuePool& pool, std::size_t bytes_wanted, bool for_good)
      : pool_(pool), queue_(pool.acquire(bytes_wanted)), for_good_(for_good) {}
  ~QueueLease() {
    if (for_good_) {
      pool_.keep(std::move(queue_));
    } else {
      pool_.give_back(std::move(queue_));
    }
  }
  QueueLease(const QueueLease&) = delete;
  QueueLease& operator=(const QueueLease&) = delete;
  Queue& queue() { return *queue_; }
  QueuePool& pool() { return pool_; }

 private:
  QueuePool& pool_;
  std::unique_ptr<Queue> queue_;
  const bool for_good_;
};

struct CallCounts {
  Tally tally;
  std::int64_t host_calls = 0, allocations = 0, inputs_released = 0;
};

class Executor {
 public:
  Executor(const Capture& capture, std::shared_ptr<const CodeTable> code, Frame& frame,
           DeviceContext& context, std::span<const InputArg> inputs, Host& host, bool keep_arena);
  ~Executor();  // releases call results that are still held
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void run();
  const CallCounts& counts() const { return counts_; }

 private:
  void run_segment(int segment);
  void run_item(const Item& item);
  void run_call(const CallLayout& layout, Frame::CallState& state);
  void take_results(const CallLayout& layout, Frame::CallState& state);
  void run_bind(const BindLayout& layout);
  bool condition(int pointer_word);
  void begin_epoch(int epoch);
  void bind_symbol(int symbol, std::int64_t value);
  void allocate_outputs(int epoch);
  std::byte* reserve(int block, const BlockPlan& plan);
  void release_early(const Release& release);
  void release(program::BufferId id);
  void give_outputs();
  void give_trace();
  template <class HostWork>
  void in_host_code(HostWork work);

  const Capture& capture_;
  const std::shared_ptr<const CodeTable> code_;
  Frame& frame_;
  DeviceContext& context_;
  const std::span<const InputArg> inputs_;
  Host& host_;
  const bool keep_arena_;
  RunControl* const control_ = current_control();
  QueueLease* lease_ = nullptr;
  int epoch_ = 0;
  std::int64_t temporaries_ = 0;  // bytes of the largest block, without the workers' scratch
  CallCounts counts_;
  const std::unique_ptr<CallTrace> trace_;  // null if no trace was requested
};

}  // namespace gex::runtime
