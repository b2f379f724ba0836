#pragma once
// Memory for temporaries: an Arena belongs to a Queue, and a pool of Queues serves every Program
// and key of a device. Nothing in an arena outlives a call, so blocks are reused without clearing
// and only grow.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/background/fork.hpp"

namespace gex::runtime {

class Device;
class Queue;

// Faulting a page in again costs about as much as filling it: blocks with few bytes of temporaries
// are kept, regardless of the size of their workers' scratch.
inline bool worth_discarding(std::int64_t bytes) { return bytes >= (std::int64_t{8} << 20); }

class Arena {
 public:
  explicit Arena(Device& device) : device_(device) {}
  ~Arena() { clear(); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Block `index` with at least `bytes`; growing loses its contents. Block 0 is for sizes known at
  // the start of a call, block e for those known after the e-th bind, later blocks for Captures
  // that do not share one.
  std::byte* reserve(std::size_t index, std::size_t bytes);
  std::size_t bytes() const;
  std::int64_t allocations() const { return allocations_; }
  void clear() noexcept;
  // Returns the pages of large blocks to the system until they are used again; addresses stay
  // valid.
  void discard() noexcept;
  void discard(std::int64_t begin, std::int64_t end) noexcept;  // bytes of block 0

 private:
  struct Block {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };
  void release(Block& block) noexcept;

  Device& device_;
  std::vector<Block> blocks_;
  std::int64_t allocations_ = 0;
};

class QueuePool {
 public:
  QueuePool(Device& device, int limit);
  ~QueuePool();

  // A Queue for one call. Waits while `limit` calls compute; calls inside host code don't count, so
  // a re-entrant call never waits for its caller.
  std::unique_ptr<Queue> acquire(std::size_t bytes_wanted);
  void give_back(std::unique_ptr<Queue> queue) noexcept;
  // Called instead of give_back() if a graph of the caller uses the queue's memory: the queue
  // serves no other call and lives as long as the pool.
  void keep(std::unique_ptr<Queue> queue) noexcept;
  void suspend() noexcept;  // the holder of a Queue enters host code
  void resume() noexcept;   // and returns from it; never waits
  void trim() noexcept;     // frees the arenas of idle queues
  std::size_t idle_queues() const;
  std::size_t idle_bytes() const;  // of their arenas

 private:
  Device& device_;
  const int limit_;
  // Threads that were computing do not exist in a forked child.
  mutable ForkSafeMutex mutex_{[this] {
    computing_ = 0;
    changed_.renew();
  }};
  ForkSafeCondition changed_;
  std::vector<std::unique_ptr<Queue>> idle_, kept_;
  int computing_ = 0;
};

}  // namespace gex::runtime
