#include <atomic>
#include <cstring>

#include "base/error.hpp"
#include "runtime/drivers/cuda/cuda_device.hpp"

namespace gex::runtime::cuda {

namespace {
// The workspace that cuBLAS requests on Hopper; allocated once, so that cuBLAS allocates nothing
// during a capture.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
std::atomic<std::uint64_t> next_number{1};
}  // namespace

CudaQueue::CudaQueue(CudaDevice& device)
    : Queue(device), device_(device), number_(next_number.fetch_add(1)), side_(device.api()) {
  device_.make_current();
  check(device_.api(), device_.api().stream_create(&own_stream_, kStreamNonBlocking),
        "making a stream");
  stream_ = own_stream_;
  check(device_.api(), device_.api().event_create(&done_, kEventDisableTiming), "making an event");
}

CudaQueue::~CudaQueue() {
  const DriverApi& api = device_.api();
  device_.make_current();
  // Work of the last call on the caller's stream may still use the arena and the block.
  if (has_run_) api.event_synchronize(done_);
  reset();
  std::string why_not;
  if (cublas_ != nullptr) cublas_api(why_not)->destroy(cublas_);
  for (const auto& [number, workspace] : workspaces_) api.memory_free(workspace);
  if (block_ != 0) api.memory_free(block_);
  for (Slot& slot : slots_) {
    if (slot.memory != nullptr) api.host_free(slot.memory);
    if (slot.done != nullptr) api.event_destroy(slot.done);
  }
  api.event_destroy(done_);
  api.stream_destroy(own_stream_);
}

bool CudaQueue::read(void* host, const void* device, std::size_t bytes) {
  device_.make_current();
  if (recorded_)
    fail(
        ErrorCode::unsupported,
        "this stream is being captured, and the program must read a value on the host (a size that "
        "depends on data, a condition); call it outside of the capture");
  check(device_.api(),
        device_.api().copy_to_host_async(host, reinterpret_cast<DevicePtr>(device), bytes, stream_),
        "reading device memory");
  check(device_.api(), device_.api().stream_synchronize(stream_), "waiting for device memory");
  return true;
}

void CudaQueue::begin(std::optional<std::uint64_t> stream) {
  device_.make_current();
  from_caller_ = stream.has_value();
  stream_ = from_caller_ ? reinterpret_cast<Stream>(*stream) : own_stream_;
  open_ = true;
  if (from_caller_ && device_.is_capturing(*stream)) {
    // Memory must be allocated and written during the capture, which other modes don't allow.
    recorded_ = true;
    callers_mode_ = kCaptureRelaxed;
    check(device_.api(), device_.api().capture_mode(&callers_mode_), "setting the capture mode");
    if (has_run_)
      check(device_.api(), device_.api().event_synchronize(done_), "waiting for the last call");
    has_run_ = false;
    return;
  }
  // The arena and the block may still be in use by the last call, on another stream.
  if (has_run_ && last_ != stream_)
    check(device_.api(), device_.api().stream_wait(stream_, done_, 0), "waiting for the last call");
}

// Host code that enqueues on the caller's stream runs in stream order; other host code may read
// memory, so the stream must be idle.
void CudaQueue::park() {
  if (from_caller_) return;
  device_.make_current();
  check(device_.api(), device_.api().stream_synchronize(stream_), "running a program");
}

void CudaQueue::leave_recording() noexcept {
  if (recorded_) device_.api().capture_mode(&callers_mode_);
  recorded_ = false;
}

void CudaQueue::finish() {
  device_.make_current();
  const DriverApi& api = device_.api();
  if (recorded_) {
    leave_recording();
    open_ = false;
    return;
  }
  if (!from_caller_) check(api, api.stream_synchronize(stream_), "running a program");
  check(api, api.event_record(done_, stream_), "recording the end of a call");
  last_ = stream_;
  has_run_ = true;
  open_ = false;
}

void CudaQueue::reset() noexcept {
  if (!open_) return;
  // After a failed call, whose error was already reported.
  device_.make_current();
  if (!recorded_) {
    side_.synchronise();
    device_.api().stream_synchronize(stream_);
  }
  leave_recording();
  open_ = false;
  stream_ = own_stream_;
  from_caller_ = false;
}

void CudaQueue::reserve_block(int words) {
  if (words <= block_words_) return;
  const DriverApi& api = device_.api();
  if (block_ != 0) {
    const Stream user = recorded_ ? own_stream_ : stream_;
    check(api, api.stream_synchronize(user), "waiting to grow the parameter block");
    check(api, api.memory_free(block_), "freeing the parameter block");
    block_ = 0;
    block_words_ = 0;
  }
  const int rounded = (words + 1023) / 1024 * 1024;
  check(api, api.memory_alloc(&block_, static_cast<std::size_t>(rounded) * 8),
        "making the parameter block");
  block_words_ = rounded;
}

// The caller's graph reads the block at each launch, so it is written now and not by the graph.
void CudaQueue::write_block(const std::int64_t* words, int begin, int end) {
  const DriverApi& api = device_.api();
  check(api,
        api.copy_to_device_async(block_ + static_cast<DevicePtr>(begin) * 8, words + begin,
                                 static_cast<std::size_t>(end - begin) * 8, own_stream_),
        "sending parameters");
  check(api, api.stream_synchronize(own_stream_), "sending parameters");
}

// The least recently used slot if its copy has completed, else a new one up to the limit.
CudaQueue::Slot& CudaQueue::free_slot() {
  const DriverApi& api = device_.api();
  if (next_slot_ >= slots_.size()) next_slot_ = 0;
  const bool busy = slots_.empty() ||
                    (slots_[next_slot_].in_flight && api.event_query(slots_[next_slot_].done) != 0);
  if (busy && slots_.size() < kMaxSlots) {
    Slot slot;
    check(api, api.event_create(&slot.done, kEventDisableTiming), "making an event");
    slots_.insert(slots_.begin() + static_cast<std::ptrdiff_t>(next_slot_), slot);
  }
  Slot& slot = slots_[next_slot_++];
  if (busy && slot.in_flight)
    check(api, api.event_synchronize(slot.done), "waiting for a pinned block");
  slot.in_flight = false;
  return slot;
}

void CudaQueue::upload(const std::int64_t* words, int begin, int end) {
  if (begin >= end) return;
  if (recorded_) return write_block(words, begin, end);
  const DriverApi& api = device_.api();
  Slot& slot = free_slot();
  const std::size_t bytes = static_cast<std::size_t>(end - begin) * 8;
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

void* CudaQueue::cublas(Stream stream, int number) {
  std::string why_not;
  const CublasApi* api = cublas_api(why_not);
  if (api == nullptr) fail(ErrorCode::unsupported, "cuBLAS is not available: ", why_not);
  const auto good = [](Result result, const char* what) {
    if (result != 0) fail(ErrorCode::device_error, "cuBLAS: ", what, " failed with code ", result);
  };
  if (cublas_ == nullptr) good(api->create(&cublas_), "making a handle");
  DevicePtr& workspace = workspaces_[number];
  if (workspace == 0)
    check(device_.api(), device_.api().memory_alloc(&workspace, kWorkspaceBytes),
          "making cuBLAS' workspace");
  // Setting the stream gives the library its own workspace back.
  good(api->set_stream(cublas_, stream), "setting the stream");
  good(api->set_workspace(cublas_, reinterpret_cast<void*>(workspace), kWorkspaceBytes),
       "setting the workspace");
  return cublas_;
}

}  // namespace gex::runtime::cuda
