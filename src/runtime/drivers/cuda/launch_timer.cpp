#include "runtime/drivers/cuda/launch_timer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace gex::runtime::cuda {

namespace {

constexpr std::size_t kMostBytes = std::size_t{512} << 20, kMostOperands = 16;
constexpr double kShortest = 200;       // microseconds; shorter launches are repeated in one graph
constexpr double kSecondsForAll = 0.1;  // then the rounds so far decide
constexpr int kRounds = 8, kMostRepeats = 20;

// Bytes that are numbers of ordinary size in every floating dtype, and not all the same: products
// of equal numbers take less power, and so less time.
std::vector<std::byte> pattern() {
  std::vector<std::byte> bytes(std::size_t{1} << 20);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(0x38 + (state >> 30));
  }
  return bytes;
}

}  // namespace

LaunchTimer::LaunchTimer(const CudaLoaded& loaded, std::span<const program::Trial> trials)
    : loaded_(loaded),
      api_(loaded.device.api()),
      allowed_((loaded.device.make_current(), api_)),
      trials_(trials) {
  check(api_, api_.stream_create(&stream_, kStreamNonBlocking), "making a stream");
  check(api_, api_.event_create(&begin_, 0), "making an event");
  check(api_, api_.event_create(&end_, 0), "making an event");
  for (const program::Trial& trial : trials_) functions_.push_back(function_of(trial.launch));
}

LaunchTimer::~LaunchTimer() {
  api_.stream_synchronize(stream_);
  std::string why_not;
  if (cublas_ != nullptr) cublas_api(why_not)->destroy(cublas_);
  for (const DevicePtr memory : memory_) api_.memory_free(memory);
  for (const Module module : modules_) api_.module_unload(module);
  for (const Event event : {begin_, end_})
    if (event != nullptr) api_.event_destroy(event);
  api_.stream_destroy(stream_);
}

// Null for the library.
Function LaunchTimer::function_of(const program::StaticLaunch& launch) {
  if (launch.image == nullptr) return nullptr;
  Module module = nullptr;
  check(api_, api_.module_load(&module, launch.image->data()), "loading code to time");
  modules_.push_back(module);
  Function function = nullptr;
  check(api_, api_.module_function(&function, module, launch.entry.c_str()),
        "finding a kernel to time");
  api_.function_set_attribute(function, kFunctionMaxDynamicShared,
                              static_cast<int>(launch.shared_bytes));
  return function;
}

DevicePtr LaunchTimer::allocate(std::size_t bytes) {
  DevicePtr memory = 0;
  check(api_, api_.memory_alloc(&memory, bytes), "making memory to time launches");
  memory_.push_back(memory);
  return memory;
}

void LaunchTimer::make_operands() {
  std::size_t total = 1;
  for (const std::int64_t bytes : trials_[0].buffer_bytes) total += static_cast<std::size_t>(bytes);
  if (total > kMostBytes) fail(ErrorCode::out_of_memory, "operands of ", total, " bytes");
  int cache = 0;
  check(api_, api_.device_attribute(&cache, kAttributeL2Bytes, loaded_.device.device()),
        "querying the device");
  const std::size_t wanted = 2 * static_cast<std::size_t>(cache) / total + 1;
  operands_.resize(std::clamp<std::size_t>(wanted, 1, std::min(kMostOperands, kMostBytes / total)));
  const std::vector<std::byte> numbers = pattern();
  for (Operands& operands : operands_) {
    for (const std::int64_t bytes : trials_[0].buffer_bytes) {
      const auto size = static_cast<std::size_t>(bytes);
      const DevicePtr memory = allocate(size);
      for (std::size_t at = 0; at < size; at += numbers.size())
        check(api_,
              api_.copy_to_device(memory + at, numbers.data(), std::min(numbers.size(), size - at)),
              "writing operands");
      operands.words.push_back(static_cast<std::int64_t>(memory));
    }
    operands.words.insert(operands.words.end(), trials_[0].dims.begin(), trials_[0].dims.end());
    operands.on_device = allocate(operands.words.size() * 8);
    check(api_,
          api_.copy_to_device(operands.on_device, operands.words.data(), operands.words.size() * 8),
          "writing parameters");
  }
  // Copies from pageable memory may still be in progress.
  check(api_, api_.stream_synchronize(nullptr), "writing operands");
}

bool LaunchTimer::multiply(const program::Trial& trial, const Operands& operands) {
  constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
  std::string why_not;
  const CublasApi* cublas = cublas_api(why_not);
  if (cublas == nullptr) return false;
  if (cublas_ == nullptr) {
    const DevicePtr workspace = allocate(kWorkspaceBytes);
    if (cublas->create(&cublas_) != 0 || cublas->set_stream(cublas_, stream_) != 0 ||
        cublas->set_workspace(cublas_, reinterpret_cast<void*>(workspace), kWorkspaceBytes) != 0)
      return false;
  }
  const auto& problem = loaded_.matmuls[static_cast<std::size_t>(trial.code)];
  launch_matmul(*problem, operands.words.data(), trial.dims.data(), *cublas, cublas_);
  return true;
}

bool LaunchTimer::launch(std::size_t number, const Operands& operands) {
  const program::Trial& trial = trials_[number];
  if (functions_[number] == nullptr) return multiply(trial, operands);
  DevicePtr parameters = operands.on_device;
  void* arguments[] = {&parameters};
  return api_.launch(functions_[number], static_cast<unsigned>(trial.launch.grid), 1, 1,
                     static_cast<unsigned>(trial.launch.threads), 1, 1,
                     static_cast<unsigned>(trial.launch.shared_bytes), stream_, arguments,
                     nullptr) == 0;
}

// A graph, so that short launches are not timed by how fast the host makes them.
GraphExec LaunchTimer::captured(std::size_t number, int repeats) {
  check(api_, api_.capture_begin(stream_, kCaptureRelaxed), "beginning a capture");
  Graph graph = nullptr;
  bool good = true;
  try {
    for (int i = 0; i < repeats; ++i)
      good = launch(number, operands_[next_++ % operands_.size()]) && good;
  } catch (const Error&) {
    good = false;  // the stream must leave capture mode
  }
  const Result ended = api_.capture_end(stream_, &graph);
  GraphExec exec = nullptr;
  if (ended == 0 && good && api_.graph_instantiate(&exec, graph, 0) != 0) exec = nullptr;
  if (graph != nullptr) api_.graph_destroy(graph);
  return exec;
}

double LaunchTimer::microseconds_of(GraphExec exec) {
  check(api_, api_.event_record(begin_, stream_), "recording an event");
  check(api_, api_.graph_launch(exec, stream_), "launching a graph");
  check(api_, api_.event_record(end_, stream_), "recording an event");
  check(api_, api_.event_synchronize(end_), "timing a launch");
  float milliseconds = 0;
  check(api_, api_.event_elapsed(&milliseconds, begin_, end_), "reading the time of a launch");
  return 1e3 * static_cast<double>(milliseconds);
}

std::vector<double> LaunchTimer::time() {
  using Clock = std::chrono::steady_clock;
  make_operands();
  std::vector<double> times(trials_.size(), std::numeric_limits<double>::infinity());
  struct Graphs {
    const DriverApi& api;
    std::vector<GraphExec> execs;
    ~Graphs() {
      for (const GraphExec exec : execs)
        if (exec != nullptr) api.graph_exec_destroy(exec);
    }
  } graphs{api_, std::vector<GraphExec>(trials_.size())};
  // Libraries initialise on first use, which a capture does not allow; caches are cold.
  double longest = 0;
  for (std::size_t k = 0; k < trials_.size(); ++k) {
    check(api_, api_.event_record(begin_, stream_), "recording an event");
    if (!launch(k, operands_[0])) continue;
    check(api_, api_.event_record(end_, stream_), "recording an event");
    check(api_, api_.event_synchronize(end_), "running a candidate");
    float milliseconds = 0;
    check(api_, api_.event_elapsed(&milliseconds, begin_, end_), "reading the time of a launch");
    longest = std::max(longest, 1e3 * static_cast<double>(milliseconds));
    times[k] = 0;
  }
  const int repeats =
      std::clamp(static_cast<int>(std::ceil(kShortest / std::max(longest, 1.0))), 1, kMostRepeats);
  for (std::size_t k = 0; k < trials_.size(); ++k) {
    if (times[k] == 0) graphs.execs[k] = captured(k, repeats);
    times[k] = std::numeric_limits<double>::infinity();
  }
  const auto start = Clock::now();
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t k = 0; k < trials_.size(); ++k)
      if (graphs.execs[k] != nullptr)
        times[k] = std::min(times[k], microseconds_of(graphs.execs[k]) / repeats);
    if (std::chrono::duration<double>(Clock::now() - start).count() > kSecondsForAll) break;
  }
  return times;
}

std::vector<double> CudaLoaded::time(std::span<const program::Trial> trials) {
  if (trials.empty()) return {};
  try {
    return LaunchTimer(*this, trials).time();
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    return {};
  }
}

}  // namespace gex::runtime::cuda
