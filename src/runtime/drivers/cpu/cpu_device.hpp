#pragma once
// The CPU: launches are Callables over the thread pool, one Region for the whole replay. Small
// launches stay on the calling thread and wake nobody.

#include <cstdint>
#include <optional>

#include "base/thread_pool.hpp"
#include "runtime/device.hpp"

namespace gex::runtime {

class CpuQueue final : public Queue {
 public:
  using Queue::Queue;
  bool read(void* host, const void* device, std::size_t bytes) override;
  // Host code may want the workers for itself, a gex call inside it included: they are given up.
  void park() override {
    if (region_) region_->park();
    region_.reset();
  }
  void reset() noexcept override { region_.reset(); }

  bool workers_awake() const { return region_ && region_->workers_awake(); }
  ThreadPool::Region& region() {
    if (!region_) region_.emplace(ThreadPool::global());
    return *region_;
  }

 private:
  std::optional<ThreadPool::Region> region_;
};

class CpuDevice final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* memory, std::size_t bytes) noexcept override;
  void write(void* device, const void* host, std::size_t bytes) override;
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<CpuQueue>(*this); }
  std::unique_ptr<Loaded> load(const program::Program& program) override;
  std::unique_ptr<Recorder> make_recorder(const Image& image, Loaded& loaded,
                                          std::span<const std::int64_t> gear) override;
  bool reads_host_memory() const override { return true; }
  int workers() const override { return ThreadPool::global().threads(); }
};

}  // namespace gex::runtime
