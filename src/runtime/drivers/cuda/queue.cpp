#include <cstring>

#include "base/error.hpp"
#include "runtime/drivers/cuda/cuda_device.hpp"

namespace gex::runtime::cuda {

namespace {
// What cuBLAS asks for on Hopper; given once, so that it allocates nothing inside a capture.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
}  // namespace

CudaQueue::CudaQueue(CudaDevice& device) : Queue(device), device_(device) {
  device_.make_current();
  check(device_.api(), device_.api().stream_create(&stream_, kStreamNonBlocking),
        "making a stream");
}

CudaQueue::~CudaQueue() {
  const DriverApi& api = device_.api();
  reset();
  std::string why_not;
  if (cublas_ != nullptr) cublas_api(why_not)->destroy(cublas_);
  if (workspace_ != 0) api.memory_free(workspace_);
  if (block_ != 0) api.memory_free(block_);
  for (Slot& slot : slots_) {
    if (slot.memory != nullptr) api.host_free(slot.memory);
    if (slot.done != nullptr) api.event_destroy(slot.done);
  }
  api.stream_destroy(stream_);
}

bool CudaQueue::read(void* host, const void* device, std::size_t bytes) {
  device_.make_current();
  check(device_.api(),
        device_.api().copy_to_host_async(host, reinterpret_cast<DevicePtr>(device), bytes, stream_),
        "reading device memory");
  check(device_.api(), device_.api().stream_synchronize(stream_), "waiting for device memory");
  return true;
}

void CudaQueue::finish() {
  device_.make_current();
  check(device_.api(), device_.api().stream_synchronize(stream_), "running a program");
}

void CudaQueue::reset() noexcept {
  device_.make_current();
  device_.api().stream_synchronize(stream_);  // after a failed call; its error was told already
}

void CudaQueue::reserve_block(int words) {
  if (words <= block_words_) return;
  const DriverApi& api = device_.api();
  if (block_ != 0) {
    check(api, api.stream_synchronize(stream_), "waiting to grow the parameter block");
    check(api, api.memory_free(block_), "freeing the parameter block");
    block_ = 0;
    block_words_ = 0;
  }
  const int rounded = (words + 1023) / 1024 * 1024;
  check(api, api.memory_alloc(&block_, static_cast<std::size_t>(rounded) * 8),
        "making the parameter block");
  block_words_ = rounded;
}

void CudaQueue::upload(const std::int64_t* words, int begin, int end) {
  if (begin >= end) return;
  const DriverApi& api = device_.api();
  Slot& slot = slots_[next_slot_++ % kSlots];
  const std::size_t bytes = static_cast<std::size_t>(end - begin) * 8;
  if (slot.done == nullptr)
    check(api, api.event_create(&slot.done, kEventDisableTiming), "making an event");
  if (slot.in_flight) check(api, api.event_synchronize(slot.done), "waiting for a pinned block");
  slot.in_flight = false;
  if (slot.bytes < bytes) {
    if (slot.memory != nullptr) check(api, api.host_free(slot.memory), "freeing pinned memory");
    slot.memory = nullptr;
    slot.bytes = 0;
    check(api, api.host_alloc(&slot.memory, bytes, 0), "making pinned memory");
    slot.bytes = bytes;
  }
  std::memcpy(slot.memory, words + begin, bytes);
  check(api,
        api.copy_to_device_async(block_ + static_cast<DevicePtr>(begin) * 8, slot.memory, bytes,
                                 stream_),
        "sending parameters");
  check(api, api.event_record(slot.done, stream_), "recording an event");
  slot.in_flight = true;
}

void* CudaQueue::cublas() {
  if (cublas_ != nullptr) return cublas_;
  std::string why_not;
  const CublasApi* api = cublas_api(why_not);
  if (api == nullptr) fail(ErrorCode::unsupported, "no library for matrix products: ", why_not);
  check(device_.api(), device_.api().memory_alloc(&workspace_, kWorkspaceBytes),
        "making cuBLAS' workspace");
  const auto good = [](Result result, const char* what) {
    if (result != 0) fail(ErrorCode::device_error, "cuBLAS: ", what, " failed with code ", result);
  };
  good(api->create(&cublas_), "making a handle");
  good(api->set_stream(cublas_, stream_), "setting the stream");
  good(api->set_workspace(cublas_, reinterpret_cast<void*>(workspace_), kWorkspaceBytes),
       "setting the workspace");
  return cublas_;
}

}  // namespace gex::runtime::cuda
