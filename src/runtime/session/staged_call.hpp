#pragma once
// A call with host memory on a device with its own memory: inputs are copied to the device before
// the run, results and written inputs are copied back after it, operands and results of call steps
// during it. Inputs or outputs that the caller has on the device are used in place. On a stream of
// the caller all of them are on the device; the host then waits for the stream before it accesses
// memory that a call step or a host number needs, and otherwise not at all.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/background/fork.hpp"
#include "runtime/device.hpp"
#include "runtime/session/session.hpp"

namespace gex::runtime {

// Device memory that is reused between calls: allocating it on a GPU takes longer than a small run.
class StagingBlocks {
 public:
  explicit StagingBlocks(Device& device) : device_(device) {}
  ~StagingBlocks();
  StagingBlocks(const StagingBlocks&) = delete;
  StagingBlocks& operator=(const StagingBlocks&) = delete;

  // At least this many bytes. Sets `size` to the value to pass to give_back().
  void* take(std::size_t bytes, std::size_t& size);
  void give_back(void* memory, std::size_t size);

 private:
  void free_idle();

  Device& device_;
  ForkSafeMutex mutex_;
  std::multimap<std::size_t, void*> idle_;  // by size, which is a power of two
  std::size_t idle_bytes_ = 0, used_bytes_ = 0, most_used_ = 0;
};

class StagedCall final : public Host {
 public:
  // `written`: by input, see InputMatcher.
  StagedCall(const program::Program& program, const std::vector<bool>& written,
             DeviceContext& context, StagingBlocks& blocks, std::span<const InputArg> inputs,
             Host& host, OnDevice on_device = {});
  ~StagedCall() override;
  StagedCall(const StagedCall&) = delete;
  StagedCall& operator=(const StagedCall&) = delete;

  // Copies the inputs; returns their copies in device memory.
  std::span<const InputArg> begin();
  // After the run: copies everything back to the host.
  void finish();

  std::optional<std::uint64_t> stream() override { return stream_; }
  void about_to_block() override { host_.about_to_block(); }
  void begins(Phase phase) override { host_.begins(phase); }
  void* allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides) override;
  void set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, std::int64_t offset) override;
  void set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                              std::span<const std::int64_t> strides, std::int64_t offset) override;
  void set_integer_output(int k, std::int64_t value) override;
  void set_external_output(int k, std::uint64_t handle) override;
  void call(const program::Call& call, std::span<const TensorRef> inputs,
            std::span<const std::int64_t> integers, std::span<const TensorRef> expected,
            std::span<CallResult> outputs) override;
  void release(std::uint64_t handle) override;
  void release_input(int i) override { host_.release_input(i); }

 private:
  // A host tensor and its copy on the device.
  struct Copy {
    void* host = nullptr;
    DType dtype = DType::f32;
    std::vector<std::int64_t> shape, strides;
    void* block = nullptr;
    std::size_t block_size = 0;
    std::byte* lowest = nullptr;  // the element with the lowest address
    std::byte* device = nullptr;  // the element with all indices 0
  };
  // Allocates device memory for it; nothing is copied yet.
  Copy make(void* host, DType dtype, std::span<const std::int64_t> shape,
            std::span<const std::int64_t> strides);
  void write(const Copy& copy);
  void read(const Copy& copy);  // into the host's tensor, element by element
  void read_bytes(void* host, const void* device, std::size_t bytes);
  void give_back(Copy& copy);
  void copy_back();  // once
  void wait_for_stream();
  // Puts dense host memory into an output that the host has on the device.
  void deliver(int k, DType dtype, std::span<const std::int64_t> shape, const void* elements);
  void refuse_views(int k) const;

  const program::Program& program_;
  const std::vector<bool>& written_;
  DeviceContext& context_;
  StagingBlocks& blocks_;
  Host& host_;
  const OnDevice on_device_;
  const std::optional<std::uint64_t> stream_;  // the caller's
  std::vector<InputArg> inputs_;
  std::vector<Copy> input_copies_, output_copies_;
  std::map<std::uint64_t, Copy> call_results_;  // by handle
  bool is_copied_back_ = false;
  bool has_copied_results_ = false;  // of calls
};

}  // namespace gex::runtime
