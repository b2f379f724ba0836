#pragma once
// Device memory of the driver that computes on the host: host memory between pages that can't be
// touched. It begins as NaN (or -1), what a kernel stores behind it is found when it is released,
// and after that an access ends with a signal.

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

namespace fake_cuda {

class DeviceMemory {
 public:
  static DeviceMemory& get() {
    static auto* const memory = new DeviceMemory;
    return *memory;
  }
  // Null: there is not so much memory.
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    // It ends where a page ends, as far as its alignment allows.
    const std::size_t used = rounded(bytes > 0 ? bytes : 1, kAlignment);
    const std::size_t pages = rounded(used, kPage);
    void* const all =
        mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    auto* const first = static_cast<unsigned char*>(all);
    unsigned char* const memory = first + pages - used;
    std::memset(first, kOutside, pages - used);
    std::memset(memory, 0xff, bytes);
    std::memset(memory + bytes, kOutside, used - bytes);
    mprotect(first + pages, kPage, PROT_NONE);
    if (protects_ && users_ == 0) mprotect(first, pages, PROT_NONE);
    blocks_[memory] = {first, pages, bytes};
    return memory;
  }
  void release(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(memory);
    if (found == blocks_.end()) stop("memory is released that was not allocated", 0);
    const Block block = found->second;
    blocks_.erase(found);
    mprotect(block.first, block.pages, PROT_READ | PROT_WRITE);
    const auto* const begin = static_cast<const unsigned char*>(memory);
    for (const unsigned char* at = block.first; at < begin; ++at)
      if (*at != kOutside) stop("a store before an allocation", block.bytes);
    for (const unsigned char* at = begin + block.bytes; at < block.first + block.pages; ++at)
      if (*at != kOutside) stop("a store behind an allocation", block.bytes);
    madvise(block.first, block.pages, MADV_DONTNEED);
    mprotect(block.first, block.pages, PROT_NONE);
    released_.push_back(block);
    if (released_.size() <= kMostReleased) return;
    munmap(released_.front().first, released_.front().pages + kPage);
    released_.pop_front();
  }
  // With GEX_FAKE_CUDA_PROTECT: the driver itself works.
  void open() { change(1, PROT_READ | PROT_WRITE); }
  void close() { change(-1, PROT_NONE); }

 private:
  struct Block {
    unsigned char* first;
    std::size_t pages, bytes;
  };
  static constexpr std::size_t kPage = 4096, kAlignment = 256, kMostReleased = 4096;
  static constexpr unsigned char kOutside = 0xcd;
  static std::size_t rounded(std::size_t bytes, std::size_t by) {
    return (bytes + by - 1) / by * by;
  }
  [[noreturn]] static void stop(const char* what, std::size_t bytes) {
    std::fprintf(stderr, "%s (of %zu bytes)\n", what, bytes);
    abort();
  }
  void change(int users, int protection) {
    if (!protects_) return;
    const std::lock_guard lock(mutex_);
    const bool matters = users > 0 ? users_ == 0 : users_ == 1;
    users_ += users;
    if (!matters) return;
    for (const auto& [memory, block] : blocks_) mprotect(block.first, block.pages, protection);
  }

  const bool protects_ = getenv("GEX_FAKE_CUDA_PROTECT") != nullptr;
  std::mutex mutex_;
  std::map<void*, Block> blocks_;
  std::deque<Block> released_;
  int users_ = 0;
};

// While the driver itself works.
struct DeviceAccess {
  DeviceAccess() { DeviceMemory::get().open(); }
  ~DeviceAccess() { DeviceMemory::get().close(); }
};

}  // namespace fake_cuda
