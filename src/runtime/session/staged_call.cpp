#include "runtime/session/staged_call.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "base/error.hpp"
#include "base/strided_copy.hpp"
#include "runtime/memory/usage.hpp"
#include "runtime/session/executor.hpp"

namespace gex::runtime {
namespace {

// The widest access of a kernel.
constexpr std::size_t kVectorBytes = 16;

// The range of elements in memory, relative to the element with all indices 0.
struct Extent {
  std::int64_t first = 0, last = -1;  // last < first: empty
  std::int64_t elements() const { return last - first + 1; }
};

Extent extent_of(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  Extent extent{0, 0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return {};
    const std::int64_t reach = (shape[d] - 1) * strides[d];
    (reach < 0 ? extent.first : extent.last) += reach;
  }
  return extent;
}

// Whether the elements are contiguous, in any order of the axes.
bool has_no_gaps(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, size
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) axes.emplace_back(std::abs(strides[d]), shape[d]);
  std::ranges::sort(axes);
  std::int64_t next = 1;
  for (const auto& [stride, size] : axes) {
    if (stride != next) return false;
    next *= size;
  }
  return true;
}

}  // namespace

StagingBlocks::~StagingBlocks() { free_idle(); }

void* StagingBlocks::take(std::size_t bytes, std::size_t& size) {
  constexpr std::size_t kSmallest = 256;
  size = std::bit_ceil(std::max(bytes, kSmallest));
  const std::lock_guard lock(mutex_);
  void* memory = nullptr;
  if (const auto found = idle_.find(size); found != idle_.end()) {
    memory = found->second;
    idle_bytes_ -= size;
    idle_.erase(found);
  } else {
    if (idle_bytes_ > most_used_) free_idle();  // sizes that later calls do not use
    memory = device_.allocate(size);
    count_allocated(MemoryUse::staging, size);
  }
  used_bytes_ += size;
  most_used_ = std::max(most_used_, used_bytes_);
  return memory;
}

void StagingBlocks::give_back(void* memory, std::size_t size) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= size;
  idle_bytes_ += size;
  idle_.emplace(size, memory);
}

void StagingBlocks::free_idle() {
  for (const auto& [size, memory] : idle_) {
    device_.deallocate(memory, size);
    count_freed(MemoryUse::staging, size);
  }
  idle_.clear();
  idle_bytes_ = 0;
}

StagedCall::StagedCall(const program::Program& program, const std::vector<bool>& written,
                       DeviceContext& context, StagingBlocks& blocks,
                       std::span<const InputArg> inputs, Host& host, OnDevice on_device)
    : program_(program),
      written_(written),
      context_(context),
      blocks_(blocks),
      host_(host),
      on_device_(on_device),
      stream_(host.stream()),
      inputs_(inputs.begin(), inputs.end()),
      input_copies_(inputs.size()),
      output_copies_(program.outputs.size()) {}

std::span<const InputArg> StagedCall::begin() {
  if (on_device_.inputs) return inputs_;
  // The run itself reports inputs that do not match.
  const std::size_t known = std::min(inputs_.size(), program_.inputs.size());
  for (std::size_t i = 0; i < known; ++i) {
    if (program_.inputs[i].kind == program::InputDesc::Kind::integer) continue;
    TensorRef& tensor = inputs_[i].tensor;
    input_copies_[i] = make(tensor.data, tensor.dtype, tensor.shape, tensor.strides);
    write(input_copies_[i]);
    tensor.data = input_copies_[i].device;
  }
  return inputs_;
}

StagedCall::~StagedCall() {
  for (Copy& copy : input_copies_) give_back(copy);
  for (Copy& copy : output_copies_) give_back(copy);
  for (auto& [handle, copy] : call_results_) give_back(copy);
}

StagedCall::Copy StagedCall::make(void* host, DType dtype, std::span<const std::int64_t> shape,
                                  std::span<const std::int64_t> strides) {
  Copy copy;
  copy.host = host;
  copy.dtype = dtype;
  copy.shape.assign(shape.begin(), shape.end());
  copy.strides.assign(strides.begin(), strides.end());
  const Extent extent = extent_of(shape, strides);
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  // With the alignment of the host's tensor, as if that were on the device, and at the end of the
  // block: a kernel that goes on behind it leaves the allocation, which tools find.
  const std::size_t off =
      (reinterpret_cast<std::uintptr_t>(host) + static_cast<std::uintptr_t>(extent.first * size)) %
      kVectorBytes;
  const std::size_t bytes = off + static_cast<std::size_t>(extent.elements() * size);
  copy.block = blocks_.take(bytes, copy.block_size);
  const std::size_t used = (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
  copy.lowest = static_cast<std::byte*>(copy.block) + (copy.block_size - used) + off;
  copy.device = copy.lowest - extent.first * size;
  return copy;
}

void StagedCall::give_back(Copy& copy) {
  if (copy.block != nullptr) blocks_.give_back(copy.block, copy.block_size);
  copy.block = nullptr;
}

void StagedCall::write(const Copy& copy) {
  const Extent extent = extent_of(copy.shape, copy.strides);
  const auto size = static_cast<std::int64_t>(size_of(copy.dtype));
  if (extent.elements() == 0) return;
  context_.device->write(copy.lowest, static_cast<std::byte*>(copy.host) + extent.first * size,
                         static_cast<std::size_t>(extent.elements() * size));
}

void StagedCall::wait_for_stream() {
  if (stream_) context_.device->wait_for(*stream_);
}

void StagedCall::read_bytes(void* host, const void* device, std::size_t bytes) {
  wait_for_stream();
  QueueLease lease(*context_.queues, 0, /*for_good=*/false);
  lease.queue().begin(std::nullopt);
  lease.queue().read(host, device, bytes);
  lease.queue().finish();
}

// Memory between the elements may belong to other tensors and is not written.
void StagedCall::read(const Copy& copy) {
  const Extent extent = extent_of(copy.shape, copy.strides);
  const std::size_t size = size_of(copy.dtype);
  const auto bytes = static_cast<std::size_t>(extent.elements()) * size;
  if (bytes == 0) return;
  const std::int64_t to_first = -extent.first * static_cast<std::int64_t>(size);
  if (has_no_gaps(copy.shape, copy.strides)) {
    read_bytes(static_cast<std::byte*>(copy.host) - to_first, copy.lowest, bytes);
    return;
  }
  std::vector<std::byte> all(bytes);
  read_bytes(all.data(), copy.lowest, bytes);
  copy_elements(size, copy.shape, all.data() + to_first, copy.strides,
                static_cast<std::byte*>(copy.host), copy.strides);
}

void StagedCall::copy_back() {
  if (std::exchange(is_copied_back_, true)) return;
  for (std::size_t i = 0; i < input_copies_.size(); ++i)
    if (input_copies_[i].block != nullptr && written_[i]) read(input_copies_[i]);
  for (const Copy& copy : output_copies_)
    if (copy.block != nullptr) read(copy);
}

// Kernels on the caller's stream may still read copies, whose memory other calls will use.
void StagedCall::finish() {
  copy_back();
  if (has_copied_results_) wait_for_stream();
}

void* StagedCall::allocate_output(int k, DType dtype, std::span<const std::int64_t> shape,
                                  std::span<const std::int64_t> strides) {
  void* host = host_.allocate_output(k, dtype, shape, strides);
  if (on_device_.outputs) return host;
  return (output_copies_[index(k)] = make(host, dtype, shape, strides)).device;
}

// Programs compiled for a device return no views to a host.
void StagedCall::refuse_views(int k) const {
  if (on_device_.inputs || on_device_.outputs)
    fail(ErrorCode::unsupported, "output ", k, " is a view of another tensor, which a call with ",
         "tensors on the device can't return; compile the program for the device again");
}

void StagedCall::deliver(int k, DType dtype, std::span<const std::int64_t> shape,
                         const void* elements) {
  const std::vector<std::int64_t> strides = dense_strides_of(shape);
  void* place = host_.allocate_output(k, dtype, shape, strides);
  const auto count = static_cast<std::size_t>(extent_of(shape, strides).elements());
  wait_for_stream();  // earlier work there may use the memory
  context_.device->write(place, elements, count * size_of(dtype));
}

// Results without their own memory are reported after the run has finished, because the host may
// read the tensors that they are views of.
void StagedCall::set_view_output(int k, int of_input, std::span<const std::int64_t> shape,
                                 std::span<const std::int64_t> strides, std::int64_t offset) {
  refuse_views(k);
  copy_back();
  host_.set_view_output(k, of_input, shape, strides, offset);
}

void StagedCall::set_output_view_output(int k, int of_output, std::span<const std::int64_t> shape,
                                        std::span<const std::int64_t> strides,
                                        std::int64_t offset) {
  refuse_views(k);
  copy_back();
  host_.set_output_view_output(k, of_output, shape, strides, offset);
}

void StagedCall::set_integer_output(int k, std::int64_t value) {
  copy_back();
  if (on_device_.outputs) return deliver(k, DType::i64, {}, &value);
  host_.set_integer_output(k, value);
}

void StagedCall::set_external_output(int k, std::uint64_t handle) {
  copy_back();
  Copy& copy = call_results_.at(handle);
  read(copy);  // later steps may have overwritten it
  give_back(copy);
  if (on_device_.outputs) {
    deliver(k, copy.dtype, copy.shape, copy.host);
    call_results_.erase(handle);
    return host_.release(handle);
  }
  call_results_.erase(handle);
  host_.set_external_output(k, handle);
}

void StagedCall::call(const program::Call& call, std::span<const TensorRef> inputs,
                      std::span<const std::int64_t> integers, std::span<const TensorRef> expected,
                      std::span<CallResult> outputs) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<TensorRef> operands(inputs.begin(), inputs.end());
  for (TensorRef& operand : operands) {
    const Extent extent = extent_of(operand.shape, operand.strides);
    const auto size = static_cast<std::int64_t>(size_of(operand.dtype));
    memory.emplace_back(static_cast<std::size_t>(extent.elements() * size) + 1);
    const std::int64_t to_first = -extent.first * size;
    if (extent.elements() > 0)
      read_bytes(memory.back().data(), static_cast<std::byte*>(operand.data) - to_first,
                 memory.back().size() - 1);
    operand.data = memory.back().data() + to_first;
    // The host's tensor may be older than the device's copy.
    operand.input = -1;
    operand.handle = 0;
  }
  host_.call(call, operands, integers, expected, outputs);
  for (int i : call.written_inputs) {
    const Extent extent = extent_of(inputs[index(i)].shape, inputs[index(i)].strides);
    const auto before = extent.first * static_cast<std::int64_t>(size_of(inputs[index(i)].dtype));
    context_.device->write(static_cast<std::byte*>(inputs[index(i)].data) + before,
                           memory[index(i)].data(), memory[index(i)].size() - 1);
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    CallResult& result = outputs[k];
    std::vector<std::int64_t> shape(expected[k].shape.begin(), expected[k].shape.end());
    std::vector<std::int64_t> strides(expected[k].strides.begin(), expected[k].strides.end());
    const auto is_unknown = [](std::int64_t size) { return size < 0; };
    if (std::ranges::any_of(shape, is_unknown) || std::ranges::any_of(strides, is_unknown)) {
      if (!result.shape.empty()) shape = result.shape;
      strides = dense_strides_of(shape);
    }
    Copy copy = make(result.data, expected[k].dtype, shape, strides);
    write(copy);
    has_copied_results_ = true;
    result.data = copy.device;
    call_results_.insert_or_assign(result.handle, std::move(copy));
  }
}

void StagedCall::release(std::uint64_t handle) {
  if (const auto found = call_results_.find(handle); found != call_results_.end()) {
    give_back(found->second);
    call_results_.erase(found);
  }
  host_.release(handle);
}

}  // namespace gex::runtime
