#pragma once
// The CPU device: launches are Callables run on the thread pool, with one Region for the whole
// replay. Small launches run on the calling thread without waking workers (cpu_recording.hpp).

#include <cstdint>
#include <optional>

#include "base/thread_pool.hpp"
#include "runtime/device.hpp"

namespace gex::runtime {

class CpuQueue final : public Queue {
 public:
  CpuQueue(Device& device, ThreadPool& pool) : Queue(device), pool_(pool) {}
  bool read(void* host, const void* device, std::size_t bytes) override;
  // Host code may use the workers itself, for example in a nested gex call: release them.
  void park() override {
    if (region_) region_->park();
    region_.reset();
  }
  void reset() noexcept override { region_.reset(); }

  bool workers_awake() const { return region_ && region_->workers_awake(); }
  ThreadPool::Region& region() {
    if (!region_) region_.emplace(pool_);
    return *region_;
  }

 private:
  ThreadPool& pool_;
  std::optional<ThreadPool::Region> region_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(CpuResources resources = {});
  std::string_view name() const override { return "cpu"; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  void discard(void* memory, std::size_t bytes) noexcept override;
  void write(void* device, const void* host, std::size_t bytes) override;
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<CpuQueue>(*this, pool()); }
  std::unique_ptr<Loaded> load(const program::Executable& executable) override;
  std::unique_ptr<Recorder> make_recorder(const Image& image, Loaded& loaded,
                                          std::span<const std::int64_t> gear) override;
  bool reads_host_memory() const override { return true; }
  bool works_in_replay() const override { return true; }
  int workers() const override { return pool().threads(); }

 private:
  ThreadPool& pool() const { return own_pool_ ? *own_pool_ : ThreadPool::global(); }

  const CpuResources resources_;
  std::unique_ptr<ThreadPool> own_pool_;
};

}  // namespace gex::runtime
