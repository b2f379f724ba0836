#include <algorithm>
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
  const DuringCaptures allowed(api);
  // Work of the last call on the caller's stream may still use the arena and the block.
  if (has_run_) api.event_synchronize(last_done_);
  reset();
  std::string why_not;
  if (cublas_ != nullptr) cublas_api(why_not)->destroy(cublas_);
  for (const auto& [number, workspace] : workspaces_) api.memory_free(workspace);
  if (block_ != 0) api.memory_free(block_);
  for (const auto& slot : slots_) {
    if (slot->memory != nullptr) api.host_free(slot->memory);
    if (slot->done != nullptr) api.event_destroy(slot->done);
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
  in_context_ = true;
  slots_of_call_.clear();
  if (from_caller_ && device_.is_capturing(*stream)) {
    // Memory must be allocated and written during the capture, which other modes don't allow.
    recorded_ = true;
    callers_mode_ = kCaptureRelaxed;
    check(device_.api(), device_.api().capture_mode(&callers_mode_), "setting the capture mode");
    if (has_run_)
      check(device_.api(), device_.api().event_synchronize(last_done_),
            "waiting for the last call");
    has_run_ = false;
    return;
  }
  // The arena and the block may still be in use by the last call, on another stream.
  if (has_run_ && last_ != stream_)
    check(device_.api(), device_.api().stream_wait(stream_, last_done_, 0),
          "waiting for the last call");
}

// Host code that enqueues on the caller's stream runs in stream order; other host code may read
// memory, so the stream must be idle.
void CudaQueue::park() {
  if (!from_caller_) {
    return_to_context();
    check(device_.api(), device_.api().stream_synchronize(stream_), "running a program");
  }
  in_context_ = false;
}

void CudaQueue::return_to_context() {
  if (!in_context_) device_.make_current();
  in_context_ = true;
}

void CudaQueue::leave_recording() noexcept {
  if (recorded_) device_.api().capture_mode(&callers_mode_);
  recorded_ = false;
}

void CudaQueue::finish() {
  return_to_context();
  const DriverApi& api = device_.api();
  if (recorded_) {
    leave_recording();
    open_ = false;
    return;
  }
  if (!from_caller_) check(api, api.stream_synchronize(stream_), "running a program");
  // The last event recorded here marks the end of the call. That of a slot also says that the
  // slot's pinned memory is free.
  last_done_ = nullptr;
  for (Slot* slot : slots_of_call_)
    if (!slot->recorded) {
      record(*slot);
      last_done_ = slot->done;
    }
  slots_of_call_.clear();
  if (last_done_ == nullptr)
    check(api, api.event_record(last_done_ = done_, stream_), "recording the end of a call");
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
  for (Slot* slot : slots_of_call_) slot->in_flight = slot->in_flight && slot->recorded;
  slots_of_call_.clear();
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
    known_begin_ = known_end_ = 0;
  }
  const int rounded = (words + 1023) / 1024 * 1024;
  check(api, api.memory_alloc(&block_, static_cast<std::size_t>(rounded) * 8),
        "making the parameter block");
  block_words_ = rounded;
  sent_.resize(static_cast<std::size_t>(rounded));
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

void CudaQueue::record(Slot& slot) {
  check(device_.api(), device_.api().event_record(slot.done, stream_), "recording an event");
  slot.recorded = true;
}

// The least recently used slot if its copy has completed, else a new one up to the limit.
CudaQueue::Slot& CudaQueue::free_slot() {
  const DriverApi& api = device_.api();
  if (next_slot_ >= slots_.size()) next_slot_ = 0;
  const auto is_busy = [&](Slot& slot) {
    if (!slot.in_flight) return false;
    if (!slot.recorded) record(slot);  // used earlier in this call
    return api.event_query(slot.done) != 0;
  };
  const bool busy = slots_.empty() || is_busy(*slots_[next_slot_]);
  if (busy && slots_.size() < kMaxSlots) {
    auto slot = std::make_unique<Slot>();
    check(api, api.event_create(&slot->done, kEventDisableTiming), "making an event");
    slots_.insert(slots_.begin() + static_cast<std::ptrdiff_t>(next_slot_), std::move(slot));
  }
  Slot& slot = *slots_[next_slot_++];
  if (busy && slot.in_flight)
    check(api, api.event_synchronize(slot.done), "waiting for a pinned block");
  slot.in_flight = slot.recorded = false;
  return slot;
}

void CudaQueue::upload(const std::int64_t* words, int begin, int end) {
  if (begin >= end) return;
  if (recorded_) {
    known_begin_ = known_end_ = 0;
    return write_block(words, begin, end);
  }
  int first = begin, last = end;
  if (known_begin_ <= begin && end <= known_end_) {
    const std::int64_t* const known = sent_.data();
    first =
        static_cast<int>(std::mismatch(words + begin, words + end, known + begin).first - words);
    if (first == end) return;
    while (words[last - 1] == known[last - 1]) --last;
  }
  const bool joins = begin <= known_end_ && known_begin_ <= end && known_begin_ < known_end_;
  const int from = joins ? std::min(begin, known_begin_) : begin;
  const int to = joins ? std::max(end, known_end_) : end;
  known_begin_ = known_end_ = 0;  // until the copy is enqueued
  send(words, first, last);
  std::copy(words + first, words + last, sent_.begin() + first);
  known_begin_ = from;
  known_end_ = to;
}

// Through pinned memory, which is free again when the slot's event has been reached.
void CudaQueue::send(const std::int64_t* words, int begin, int end) {
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
  slot.in_flight = true;
  slots_of_call_.push_back(&slot);
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
