#include "runtime/memory/arena.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "runtime/device.hpp"
#include "runtime/memory/usage.hpp"

namespace gex::runtime {

namespace {

// Large blocks are a multiple of the huge page size, so that all of them can be discarded.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

std::byte* Arena::reserve(std::size_t index, std::size_t bytes) {
  if (blocks_.size() <= index) blocks_.resize(index + 1);
  Block& block = blocks_[index];
  if (block.bytes < bytes) {
    release(block);
    if (worth_discarding(static_cast<std::int64_t>(bytes)))
      bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    block.memory = device_.allocate(bytes);
    block.bytes = bytes;
    count_allocated(MemoryUse::temporaries, bytes);
    ++allocations_;
  }
  return static_cast<std::byte*>(block.memory);
}

std::size_t Arena::bytes() const {
  std::size_t sum = 0;
  for (const Block& block : blocks_) sum += block.bytes;
  return sum;
}

void Arena::release(Block& block) noexcept {
  if (block.memory == nullptr) return;
  device_.deallocate(block.memory, block.bytes);
  count_freed(MemoryUse::temporaries, block.bytes);
  block = {};
}

void Arena::clear() noexcept {
  for (Block& block : blocks_) release(block);
  blocks_.clear();
}

void Arena::discard() noexcept {
  for (const Block& block : blocks_)
    if (worth_discarding(static_cast<std::int64_t>(block.bytes)))
      device_.discard(block.memory, block.bytes);
}

void Arena::discard(std::int64_t begin, std::int64_t end) noexcept {
  device_.discard(static_cast<std::byte*>(blocks_[0].memory) + begin,
                  static_cast<std::size_t>(end - begin));
}

QueuePool::QueuePool(Device& device, int limit) : device_(device), limit_(limit) {
  idle_.reserve(static_cast<std::size_t>(limit) * 4);
}

QueuePool::~QueuePool() = default;

std::unique_ptr<Queue> QueuePool::acquire(std::size_t bytes_wanted) {
  std::unique_lock lock(mutex_);
  changed_->wait(lock, [this] { return computing_ < limit_; });
  ++computing_;
  if (idle_.empty()) {
    lock.unlock();
    try {
      return device_.make_queue();
    } catch (const std::exception&) {
      suspend();
      throw;
    }
  }
  // The smallest arena that is large enough, else the largest: small programs don't take large
  // arenas.
  auto best = idle_.begin();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    const std::size_t size = (*it)->arena.bytes(), best_size = (*best)->arena.bytes();
    const bool fits = size >= bytes_wanted, best_fits = best_size >= bytes_wanted;
    if (fits != best_fits ? fits : (fits ? size < best_size : size > best_size)) best = it;
  }
  std::unique_ptr<Queue> queue = std::move(*best);
  std::swap(*best, idle_.back());
  idle_.pop_back();
  return queue;
}

void QueuePool::give_back(std::unique_ptr<Queue> queue) noexcept {
  queue->reset();
  {
    const std::lock_guard lock(mutex_);
    --computing_;
    // Queues beyond the limit were created while others ran host code; they are destroyed.
    if (idle_.size() < static_cast<std::size_t>(limit_)) idle_.push_back(std::move(queue));
  }
  changed_->notify_one();
}

void QueuePool::keep(std::unique_ptr<Queue> queue) noexcept {
  queue->reset();
  {
    const std::lock_guard lock(mutex_);
    --computing_;
    kept_.push_back(std::move(queue));
  }
  changed_->notify_one();
}

void QueuePool::suspend() noexcept {
  {
    const std::lock_guard lock(mutex_);
    --computing_;
  }
  changed_->notify_one();
}

void QueuePool::resume() noexcept {
  const std::lock_guard lock(mutex_);
  ++computing_;
}

void QueuePool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  idle_.clear();
}

std::size_t QueuePool::idle_queues() const {
  const std::lock_guard lock(mutex_);
  return idle_.size();
}

std::size_t QueuePool::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& queue : idle_) sum += queue->arena.bytes();
  return sum;
}

}  // namespace gex::runtime
