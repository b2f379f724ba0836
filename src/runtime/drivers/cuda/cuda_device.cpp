#include "runtime/drivers/cuda/cuda_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "problems/matmul_sizes.hpp"
#include "runtime/drivers/cuda/control_nodes.hpp"
#include "runtime/drivers/cuda_graph/graph_recording.hpp"
#include "runtime/drivers/cuda_stream/stream_recording.hpp"
#include "runtime/session/image.hpp"

namespace gex::runtime::cuda {

namespace {

constexpr int kHelperBlock = 256;
constexpr std::int64_t kMaxHelperBlocks = 2048;

const DriverApi& opened_api() {
  std::string why_not;
  const DriverApi* api = driver_api(why_not);
  if (api == nullptr) fail(ErrorCode::device_error, "no CUDA driver: ", why_not);
  return *api;
}

unsigned blocks_for(std::int64_t bytes) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(
      (bytes / 16 + kHelperBlock - 1) / kHelperBlock, 1, kMaxHelperBlocks));
}

unsigned checked_grid(std::int64_t blocks) {
  if (blocks > std::numeric_limits<int>::max())
    fail(ErrorCode::unsupported, "CUDA: a launch of ", blocks, " blocks is more than 2^31 - 1");
  return static_cast<unsigned>(blocks);
}

}  // namespace

void check(const DriverApi& api, Result result, const char* what) {
  if (result == 0) return;
  const char* text = nullptr;
  api.error_string(result, &text);
  const std::string said = str(text == nullptr ? "unknown error" : text, " (code ", result, ")");
  if (result == kOutOfMemory) fail(ErrorCode::out_of_memory, "CUDA: ", what, ": ", said);
  // Kernel faults are reported asynchronously, by a later call to the driver.
  const bool of_kernel = result >= kFirstFault && result <= kLastFault;
  fail(ErrorCode::device_error, "CUDA: ", what, ": ", said,
       of_kernel
           ? "; a kernel of this or an earlier call failed, and the process can't use the GPU "
             "any more: run it with GEX_CUDA_CHECK=1 to find the step"
           : "");
}

DuringCaptures::DuringCaptures(const DriverApi& api) : api_(api) { api_.capture_mode(&mode_); }
DuringCaptures::~DuringCaptures() { api_.capture_mode(&mode_); }

CudaDevice::CudaDevice(bool graphs, int ordinal)
    : api_(opened_api()),
      graphs_(graphs),
      checks_steps_(switch_in_environment("GEX_CUDA_CHECK").value_or(false)),
      process_(getpid()) {
  check(api_, api_.init(0), "starting");
  int count = 0;
  check(api_, api_.device_count(&count), "counting devices");
  if (count == 0) fail(ErrorCode::device_error, "CUDA: there is no device");
  if (ordinal >= count)
    fail(ErrorCode::invalid_argument, "CUDA: there is no device ", ordinal, "; there are ", count);
  check(api_, api_.device_get(&device_, ordinal), "opening the device");
  int major = 0, minor = 0;
  check(api_, api_.device_attribute(&major, kAttributeComputeMajor, device_),
        "querying the device");
  check(api_, api_.device_attribute(&minor, kAttributeComputeMinor, device_),
        "querying the device");
  architecture_ = str("sm_", major, minor);
  check(api_, api_.device_attribute(&multiprocessors_, kAttributeMultiprocessors, device_),
        "querying the device");
  check(api_, api_.context_retain(&context_, device_), "opening the context");
}

CudaDevice::~CudaDevice() {
  make_current();
  api_.context_release(device_);
}

void CudaDevice::make_current() const { api_.context_set(context_); }

void* CudaDevice::allocate(std::size_t bytes) {
  make_current();
  const DuringCaptures allowed(api_);
  DevicePtr memory = 0;
  check(api_, api_.memory_alloc(&memory, std::max<std::size_t>(bytes, 1)), "allocating memory");
  return reinterpret_cast<void*>(memory);
}

void CudaDevice::deallocate(void* memory, std::size_t) noexcept {
  make_current();
  const DuringCaptures allowed(api_);
  api_.memory_free(reinterpret_cast<DevicePtr>(memory));
}

void CudaDevice::write(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  make_current();
  const DuringCaptures allowed(api_);
  check(api_, api_.copy_to_device(reinterpret_cast<DevicePtr>(device), host, bytes),
        "writing device memory");
  // A copy from pageable memory may still be in progress, and our streams don't wait for stream 0.
  check(api_, api_.stream_synchronize(nullptr), "writing device memory");
}

void CudaDevice::check_usable() const {
  if (getpid() != process_)
    fail(ErrorCode::device_error,
         "a program for CUDA was called in a forked child, which can't use its parent's GPU "
         "context; start the process with the method \"spawn\" and compile there");
}

bool CudaDevice::is_capturing(std::uint64_t stream) const {
  make_current();
  int status = 0;
  check(api_, api_.capture_status(reinterpret_cast<Stream>(stream), &status),
        "querying whether a stream is captured");
  return status == kCaptureActive;
}

void CudaDevice::wait_for(std::uint64_t stream) {
  make_current();
  check(api_, api_.stream_synchronize(reinterpret_cast<Stream>(stream)), "waiting for a stream");
}

// 0: the thread has none (or this is a forked child), and may keep the device's.
std::uint64_t CudaDevice::thread_state() const {
  Context context = nullptr;
  if (api_.context_get(&context) != 0) return 0;
  return reinterpret_cast<std::uintptr_t>(context);
}

void CudaDevice::set_thread_state(std::uint64_t state) const noexcept {
  if (state != 0 && state != reinterpret_cast<std::uintptr_t>(context_))
    api_.context_set(reinterpret_cast<Context>(state));
}

std::unique_ptr<Queue> CudaDevice::make_queue() { return std::make_unique<CudaQueue>(*this); }

std::unique_ptr<Loaded> CudaDevice::load(const program::Executable& executable) {
  return std::make_unique<CudaLoaded>(*this, executable);
}

std::unique_ptr<Recorder> CudaDevice::make_recorder(const Image& image, Loaded& loaded,
                                                    std::span<const std::int64_t> gear) {
  const auto& cuda = static_cast<const CudaLoaded&>(loaded);
  if (graphs_) return std::make_unique<GraphRecorder>(*this, image, cuda, gear);
  return std::make_unique<StreamRecorder>(*this, image, cuda, gear);
}

void CudaDevice::issue_all(const std::vector<CudaOp>& ops, const Replay& replay,
                           CudaQueue& queue) const {
  issue_run(ops, replay.block, queue, queue.stream(), {});
  replay.tally->single_launches += num_steps(ops);
}

void CudaDevice::issue_traced(const std::vector<CudaOp>& ops, const Replay& replay,
                              CudaQueue& queue) const {
  TracedCall call(api_, queue.stream(), *replay.trace);
  StepTimes times(api_, false);
  issue_run(ops, replay.block, queue, queue.stream(), {.times = &times});
  call.wait();
  call.give(times);
  replay.tally->single_launches += num_steps(ops);
}

void CudaDevice::issue_run(std::span<const CudaOp> ops, const std::int64_t* words, CudaQueue& queue,
                           Stream main, Mode mode) const {
  while (!ops.empty()) {
    const auto control = std::ranges::find_if(ops, &CudaOp::is_control);
    const auto straight = static_cast<std::size_t>(control - ops.begin());
    if (straight > 0) issue_straight(ops.first(straight), words, queue, main, mode);
    ops = ops.subspan(straight);
    if (ops.empty()) return;
    issue_control(ops.front(), words, queue, main, mode);
    ops = ops.subspan(1);
  }
}

void CudaDevice::issue_control(const CudaOp& op, const std::int64_t* words, CudaQueue& queue,
                               Stream main, Mode mode) const {
  if (mode.captures || queue.is_recorded())
    return ControlNodes(*this, words, queue, mode).add(op, main);
  const auto holds = [&] {
    std::uint8_t value = 0;
    queue.read(&value, reinterpret_cast<const void*>(words[op.word]), 1);
    return value != 0;
  };
  if (op.kind == CudaOp::Kind::branch)
    return issue_run(holds() ? op.first : op.second, words, queue, main, mode);
  while (true) {
    issue_run(op.first, words, queue, main, mode);
    if (!holds()) return;
    issue_run(op.second, words, queue, main, mode);
  }
}

void CudaDevice::issue_straight(std::span<const CudaOp> ops, const std::int64_t* words,
                                CudaQueue& queue, Stream main, Mode mode) const {
  StreamFork fork(api_, queue.side_streams(), main, ops, SideStreams::first_of_depth(mode.depth));
  mode.is_first = true;
  for (const CudaOp& op : ops) {
    if (op.kind == CudaOp::Kind::record) {
      fork.record(op.event, op.stream);
    } else if (op.kind == CudaOp::Kind::wait) {
      fork.wait(op.event, op.stream);
      if (mode.times != nullptr) mode.times->wait(op.stream);
    } else {
      const Stream stream = fork.stream(op.stream);
      if (mode.times != nullptr) mode.times->begin(op, stream);
      if (issue(op, words, queue, stream, mode)) mode.is_first = false;
      if (mode.times != nullptr) mode.times->end(op, stream);
      if (checks_steps_ && !mode.captures && !queue.is_recorded()) check_step(op, stream);
    }
  }
  fork.join();
}

void CudaDevice::check_step(const CudaOp& op, Stream stream) const {
  const Result result = api_.stream_synchronize(stream);
  if (result != 0) check(api_, result, str("step \"", op.name, "\"").c_str());
}

bool CudaDevice::launch(const CudaOp& op, DevicePtr parameters, const std::int64_t* words,
                        Stream stream, Mode mode) const {
  const bool at_gear = mode.at_gear;
  std::int64_t grid = at_gear ? op.gear_grid : words[op.grid_word];
  std::int64_t shared = at_gear ? op.gear_shared : words[op.grid_word + 2];
  if (op.blocks > 0) {
    grid = op.blocks;
    shared = op.gear_shared;
  } else if (op.own_grid > 0) {
    grid = op.own_grid;
    shared = op.own_shared;
  } else if (!at_gear) {
    for (int word : op.merged_grid_words) {
      grid += words[word];
      shared = std::max(shared, words[word + 2]);
    }
  }
  if (grid <= 0) return false;
  op.code->allow_shared(op.function, shared);
  void* arguments[] = {&parameters};
  // The blocks of a persistent kernel wait for each other.
  LaunchAttribute attribute;
  attribute.id = op.blocks > 0 ? kCooperative : kProgrammaticSerialization;
  attribute.value.number = 1;
  LaunchConfig config;
  config.grid[0] = checked_grid(grid);
  config.block[0] = static_cast<unsigned>(op.block);
  config.shared_bytes = static_cast<unsigned>(shared);
  config.stream = stream;
  config.attributes = &attribute;
  // Between a traced kernel and its predecessor is an event: it can't begin before that one ends.
  // The predecessor of the first kernel may write what that one reads before it waits.
  const bool overlaps = op.waits && mode.times == nullptr && !mode.is_first;
  config.num_attributes = overlaps || op.blocks > 0 ? 1 : 0;
  check(api_, api_.launch_with(&config, op.function, arguments, nullptr), "launching a kernel");
  return true;
}

bool CudaDevice::issue(const CudaOp& op, const std::int64_t* words, CudaQueue& queue, Stream stream,
                       Mode mode) const {
  const bool at_gear = mode.at_gear;
  DevicePtr parameters = queue.block() + static_cast<DevicePtr>(op.word) * 8;
  std::uint64_t pattern = op.pattern;
  int width = op.width;
  switch (op.kind) {
    case CudaOp::Kind::kernel:
      return launch(op, parameters, words, stream, mode);
    case CudaOp::Kind::library: {
      const std::int64_t* dims = at_gear ? op.gear_dims.data() : words + op.dims_word;
      namespace at = problems::matmul_dims;
      if (dims[at::batch1] <= 0 || dims[at::m] <= 0 || dims[at::n] <= 0) return false;
      std::string why_not;
      void* handle = queue.cublas(stream, op.stream);
      launch_matmul(*op.matmul, words + op.word, dims, *cublas_api(why_not), handle);
      return true;
    }
    case CudaOp::Kind::copy:
    case CudaOp::Kind::fill: {
      const bool copies = op.kind == CudaOp::Kind::copy;
      const std::int64_t bytes = at_gear ? op.gear_bytes : words[op.end_word - 1];
      if (bytes <= 0) return false;
      void* arguments[] = {&parameters, &pattern, &width};
      check(api_,
            api_.launch(op.function, blocks_for(bytes), 1, 1, kHelperBlock, 1, 1, 0, stream,
                        arguments, nullptr),
            copies ? "copying" : "filling");
      return true;
    }
    case CudaOp::Kind::record:
    case CudaOp::Kind::wait:
    case CudaOp::Kind::branch:
    case CudaOp::Kind::loop:
      break;
  }
  GEX_CHECK(false, "a step that is no work");
}

// A captured library call runs with the gear's sizes and the addresses of the capture, so only its
// number of rows may vary. Arena memory is large enough for the gear and never moves. Inputs of the
// caller may be read if none of their sizes vary (weights); their addresses are compared at each
// call. Outputs have a new address at each call.
bool CudaRecorder::can_be_captured(const program::Launch& launch) const {
  if (!problems::only_rows_vary(launch.dims)) return false;
  const bool varies =
      std::any_of(launch.dims.begin(), launch.dims.end(), [](Dim dim) { return !dim.is_const(); });
  return std::all_of(launch.buffers.begin(), launch.buffers.end(), [&](program::BufferId id) {
    const auto root = static_cast<std::size_t>(image_.root[static_cast<std::size_t>(id)]);
    using Kind = program::BufferDesc::Kind;
    const program::BufferDesc& desc = image_.program->buffers[root];
    if (desc.kind == Kind::temp || desc.kind == Kind::constant) return true;
    return desc.kind == Kind::input && (!varies || desc.bytes.is_const());
  });
}

void CudaRecorder::launch(const LaunchOp& op) {
  const program::Launch& launch = *op.launch;
  if ((launch.with_previous || launch.phase > 0) && merging_) return merge(op);
  const auto code = static_cast<std::size_t>(launch.code);
  CudaOp out;
  out.name = launch.name;
  out.stream = op.stream;
  out.step = &launch;
  out.word = op.word;
  out.dims_word = op.dims_word();
  out.grid_word = op.grid_word();
  out.end_word = op.end_word();
  out.epoch = op.epoch;
  out.block = std::max(1, launch.block);
  const auto merged = loaded_.merged.find(&launch);
  merging_ = merged != loaded_.merged.end();
  out.function = merging_ ? merged->second : loaded_.functions[code];
  out.code = &loaded_;
  // Only after a kernel: nothing begins early in the body of a conditional node or after one.
  out.waits = loaded_.waiting.contains(out.function) && outer_.empty() &&
              (ops_.empty() || !ops_.back().is_control());
  out.matmul = loaded_.matmuls[code];
  if (out.matmul) {
    if (launch.buffers.size() != 3 || launch.dims.size() != problems::matmul_dims::count)
      fail(ErrorCode::invalid_graph, "launch \"", launch.name,
           "\": a library matmul takes 3 buffers and ", int{problems::matmul_dims::count},
           " dims, got ", launch.buffers.size(), " and ", launch.dims.size());
    out.kind = CudaOp::Kind::library;
    out.capturable = can_be_captured(launch);
  }
  if (op.epoch == 0) {
    const auto value = [&](Dim dim) { return gear_[static_cast<std::size_t>(image_.slot(dim))]; };
    out.gear_grid = value(launch.grid);
    out.gear_shared = value(launch.scratch_bytes);
    for (Dim dim : launch.dims) out.gear_dims.push_back(value(dim));
  }
  if (const auto found = loaded_.persistent.find(out.function); found != loaded_.persistent.end()) {
    out.blocks = found->second.blocks;
    out.block = found->second.threads;
    out.gear_shared = found->second.shared_bytes;
  }
  if (out.matmul && launch.with_previous) return add_beside_previous(std::move(out));
  first_call_ = ops_.size();
  calls_beside_ = 0;
  ops_.push_back(std::move(out));
}

// Adds a library call to a group of independent calls. It runs on a separate stream from the time
// that the first call of the group begins; the next step after the group waits for it.
void CudaRecorder::add_beside_previous(CudaOp call) {
  // Launches are grouped only in Programs with one stream, which have no events.
  if (calls_beside_++ == 0) {
    CudaOp begin;
    begin.kind = CudaOp::Kind::record;
    begin.event = next_event_++;
    begin.word = begin.end_word = ops_[first_call_].word;
    ops_.insert(ops_.begin() + static_cast<std::ptrdiff_t>(first_call_), std::move(begin));
  }
  const int begin = ops_[first_call_].event, stream = calls_beside_;
  add_event(CudaOp::Kind::wait, begin, stream);
  call.stream = stream;
  ops_.push_back(std::move(call));
  add_event(CudaOp::Kind::record, next_event_, stream);
  add_event(CudaOp::Kind::wait, next_event_++, 0);
}

// Becomes part of the preceding launch.
void CudaRecorder::merge(const LaunchOp& op) {
  CudaOp& out = ops_.back();
  out.end_word = op.end_word();
  out.epoch = std::max(out.epoch, op.epoch);
  out.merged_grid_words.push_back(op.grid_word());
  if (out.epoch > 0) return;
  const auto value = [&](Dim dim) { return gear_[static_cast<std::size_t>(image_.slot(dim))]; };
  if (out.blocks > 0) return;
  out.gear_grid += value(op.launch->grid);
  out.gear_shared = std::max(out.gear_shared, value(op.launch->scratch_bytes));
}

void CudaRecorder::copy(const CopyOp& op) {
  CudaOp out;
  out.kind = CudaOp::Kind::copy;
  out.name = "copy";
  out.stream = op.stream;
  out.step = op.copy;
  out.function = loaded_.copy;
  out.word = op.word;
  out.end_word = op.word + 3;
  out.epoch = image_.epoch_of(op.copy->bytes);
  if (out.epoch == 0) out.gear_bytes = gear_[static_cast<std::size_t>(image_.slot(op.copy->bytes))];
  ops_.push_back(std::move(out));
}

void CudaRecorder::fill(const FillOp& op) {
  CudaOp out;
  out.kind = CudaOp::Kind::fill;
  out.name = "fill";
  out.stream = op.stream;
  out.step = op.fill;
  out.function = loaded_.fill;
  out.word = op.word;
  out.end_word = op.word + 2;
  out.pattern = op.fill->pattern;
  out.width = op.fill->pattern_bytes;
  out.epoch = image_.epoch_of(op.fill->bytes);
  if (out.epoch == 0) out.gear_bytes = gear_[static_cast<std::size_t>(image_.slot(op.fill->bytes))];
  ops_.push_back(std::move(out));
}

// Before the first step there is nothing to wait for.
void CudaRecorder::add_event(CudaOp::Kind kind, int event, int stream) {
  merging_ = false;
  if (ops_.empty()) return;
  CudaOp out;
  out.kind = kind;
  out.stream = stream;
  out.event = event;
  out.word = out.end_word = ops_.back().end_word;
  ops_.push_back(std::move(out));
}

void CudaRecorder::begin_control(const ControlOp& op) {
  CudaOp control;
  control.kind = op.loops ? CudaOp::Kind::loop : CudaOp::Kind::branch;
  control.name = op.loops ? "while" : "if";
  control.word = op.word;
  control.function = loaded_.set_condition;
  outer_.push_back({std::move(control), take_steps()});
}

void CudaRecorder::next_segment() { outer_.back().control.first = take_steps(); }

void CudaRecorder::end_control() {
  Outer ended = std::move(outer_.back());
  outer_.pop_back();
  CudaOp& control = ended.control;
  control.second = take_steps();
  control.end_word = control.word + 1;
  for (const auto* steps : {&control.first, &control.second})
    if (!steps->empty()) control.end_word = std::max(control.end_word, steps->back().end_word);
  ops_ = std::move(ended.before);
  ops_.push_back(std::move(control));
}

void CudaRecorder::record(int event, int stream) { add_event(CudaOp::Kind::record, event, stream); }
void CudaRecorder::wait(int event, int stream) { add_event(CudaOp::Kind::wait, event, stream); }

// A kernel that begins early waits for the kernel before it on its own stream alone. Calls of a
// library that run beside each other end before the next kernel begins.
std::vector<CudaOp> CudaRecorder::take_steps() {
  const bool several =
      std::any_of(ops_.begin(), ops_.end(), [](const CudaOp& op) { return op.stream != 0; });
  const bool only_calls = next_event_ > 0;
  for (std::size_t i = 0; several && i < ops_.size(); ++i)
    if (!only_calls || (i > 0 && ops_[i - 1].kind == CudaOp::Kind::wait)) ops_[i].waits = false;
  merging_ = false;
  first_call_ = 0;
  calls_beside_ = 0;
  return std::exchange(ops_, {});
}

std::int64_t num_steps(std::span<const CudaOp> ops) {
  std::int64_t steps = 0;
  for (const CudaOp& op : ops)
    steps += op.is_control() ? num_steps(op.first) + num_steps(op.second) : op.is_event() ? 0 : 1;
  return steps;
}

void count(const std::vector<CudaOp>& ops, const std::int64_t* words, Tally& tally) {
  for (const CudaOp& op : ops) {
    if (op.kind == CudaOp::Kind::kernel || op.kind == CudaOp::Kind::library) {
      const auto runs = [&](int word) { return words[word] > 0; };
      const bool any = runs(op.grid_word) ||
                       std::any_of(op.merged_grid_words.begin(), op.merged_grid_words.end(), runs);
      tally.launches += any ? 1 : 0;
    }
    if (op.kind == CudaOp::Kind::copy)
      tally.bytes_copied += std::max<std::int64_t>(0, words[op.end_word - 1]);
  }
}

}  // namespace gex::runtime::cuda
