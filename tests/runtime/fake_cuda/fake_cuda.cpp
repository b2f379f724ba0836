// A CUDA driver, NVRTC and cuBLAS that run on the host, with the entry points that gex opens:
// enough to put the CUDA drivers through the conformance suite where there is no GPU. Device memory
// is host memory (device_memory.hpp; with GEX_FAKE_CUDA_PROTECT=1 it can't be touched but by what
// the driver runs, so that host code that follows a device pointer ends with a signal), a "cubin"
// is a shared library that the host's compiler made, kernels run block by block on one
// thread, captured streams collect functions. What a real driver would refuse fails (rules.hpp);
// an access that is not aligned ends the process with the line of the text. With
// GEX_FAKE_CUDA_LAZY=1 nothing runs before somebody waits, and then streams made later run first as
// far as events allow: steps that lack one go wrong. Libraries of kernels stay in
// GEX_FAKE_CUDA_FOLDER, if it is set, for later processes; GEX_FAKE_CUDA_SOURCES is a folder for
// the CUDA text of what is compiled; with GEX_FAKE_NO_NVRTC=1 nothing can be compiled. With
// GEX_FAKE_CUDA_IDLE=1 nothing is compiled, launched or copied, so that what is left of a call is
// the host's own time. GEX_FAKE_KERNEL_TIMES says how long launches take (kernel_times.hpp).

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../../codegen/cuda_emulation_text.hpp"
#include "device_memory.hpp"
#include "kernel_sources.hpp"
#include "kernel_times.hpp"
#include "rules.hpp"

namespace {

using fake_cuda::CaptureRules;
using fake_cuda::DeviceAccess;
using fake_cuda::DeviceMemory;
using fake_cuda::host_text;
using fake_cuda::kEmulation;
using fake_cuda::KernelTimes;
using fake_cuda::LiveObjects;

using Work = std::function<void()>;
using DevicePtr = unsigned long long;

struct Capture;
struct Event {
  bool is_timed = false;
  std::chrono::steady_clock::time_point time;  // when it was recorded: work is done when issued
  long recorded = 0, reached = 0;              // how often
  Capture* capture = nullptr;                  // where it was recorded last
};
// Work, or an event to reach or to wait for.
struct Item {
  Work work;
  Event* event = nullptr;
  long ticket = 0;
  bool waits = false;
};
struct Stream {
  Capture* capture = nullptr;  // that the stream takes part in
  std::vector<Item> pending;   // GEX_FAKE_CUDA_LAZY
  // A conditional node that was added behind the last work of the stream, which does not know it
  // yet; and whether such a node is the last work.
  const void* added = nullptr;
  bool is_after_node = false;
  Stream* self = nullptr;  // what stands for its last work
  bool is_after_kernel = false;
};
using Items = std::vector<std::pair<Stream*, Item>>;  // in the order of the calls
// What a conditional node depends on.
struct Condition {
  unsigned value = 0, initial = 0;
  bool used = false;  // by a node
};
struct Kernel;
struct Graph {
  Items items;
  std::vector<std::pair<const Kernel*, int>> launches;  // with the dynamic shared memory of each
  std::vector<std::shared_ptr<Condition>> conditions;
};
struct Capture {
  Stream* origin = nullptr;
  Items items;
  Graph* graph = nullptr;
  bool is_body = false;  // of a conditional node
};
using KernelFunction = void (*)(const long long*, unsigned long long, int);
struct Kernel {
  KernelFunction function;
  void (*set_grid)(unsigned block, unsigned grid);
  int parameters;
  // Of generated kernels, whose threads run one by one; else null.
  void (*run)(KernelFunction, const long long* words, unsigned blocks, unsigned threads,
              long long shared, unsigned cluster);
  unsigned cluster;            // 0: of a persistent kernel, whose blocks wait for each other
  int threads, static_shared;  // at most; in bytes
  double microseconds = 0;
  int most_shared = fake_cuda::kDefaultShared;
};
struct Module {
  void* library;
  std::vector<std::unique_ptr<Kernel>> kernels;
};
struct Program {
  std::string source, log, image;
};
struct Handle {
  Stream* stream = nullptr;
};

// An illegal address, once the kernel launch that GEX_FAKE_FAULT numbers has run: as on a GPU, all
// that comes later fails.
std::atomic<int> launches_so_far{0};
int faulting_launch() {
  const char* text = getenv("GEX_FAKE_FAULT");
  return text == nullptr ? 0 : atoi(text);
}
void count_launch() { ++launches_so_far; }
int fault() {
  static const int faulting = faulting_launch();
  return faulting > 0 && launches_so_far >= faulting ? 700 : 0;
}
bool is_lazy() {
  static const bool lazy = getenv("GEX_FAKE_CUDA_LAZY") != nullptr;
  return lazy;
}
bool is_idle() {
  static const bool idle = getenv("GEX_FAKE_CUDA_IDLE") != nullptr;
  return idle;
}
std::vector<Stream*> all_streams;  // GEX_FAKE_CUDA_LAZY; the first is stream 0

Stream* real(Stream* stream) {
  if (stream != nullptr || !is_lazy()) return stream;
  if (all_streams.empty()) all_streams.push_back(new Stream);
  return all_streams.front();
}

void run(Item& item) {
  if (item.work) item.work();
  if (item.event != nullptr && !item.waits)
    item.event->reached = std::max(item.event->reached, item.ticket);
}
bool is_blocked(const Item& item) { return item.waits && item.event->reached < item.ticket; }

// Each stream in order, the last ones first, until an event stops it.
void run_lazily(std::vector<std::vector<Item>> streams) {
  std::vector<std::size_t> next(streams.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t k = streams.size(); k-- > 0;)
      for (; next[k] < streams[k].size() && !is_blocked(streams[k][next[k]]); moved = true)
        run(streams[k][next[k]++]);
  }
  for (std::size_t k = 0; k < streams.size(); ++k)
    if (next[k] < streams[k].size()) {
      std::fprintf(stderr, "a stream waits for an event that never comes\n");
      abort();
    }
}

void drain() {
  if (!is_lazy()) return;
  const DeviceAccess access;
  std::vector<std::vector<Item>> streams;
  for (Stream* stream : all_streams) streams.push_back(std::exchange(stream->pending, {}));
  run_lazily(std::move(streams));
}

// Events of a graph are reached anew at each launch.
void run_items(const Items& items) {
  if (!is_lazy()) {
    for (const auto& [stream, item] : items)
      if (item.work) item.work();
    return;
  }
  for (const auto& [stream, item] : items)
    if (item.event != nullptr) item.event->reached = 0;
  std::vector<Stream*> order;
  std::vector<std::vector<Item>> streams;
  for (const auto& [stream, item] : items) {
    auto at = std::find(order.begin(), order.end(), stream);
    if (at == order.end()) {
      at = order.insert(order.end(), stream);
      streams.emplace_back();
    }
    streams[static_cast<std::size_t>(at - order.begin())].push_back(item);
  }
  run_lazily(std::move(streams));
}

// Conditions have their initial values at each launch.
void run_graph(const Graph& graph) {
  for (const auto& condition : graph.conditions) condition->value = condition->initial;
  run_items(graph.items);
}

void add(Stream* stream, Item item) {
  stream = real(stream);
  if (stream->added != nullptr) {
    std::fprintf(stderr, "work that does not wait for the conditional node before it\n");
    abort();
  }
  stream->is_after_node = false;
  if (stream->capture != nullptr)
    stream->capture->items.emplace_back(stream, std::move(item));
  else
    stream->pending.push_back(std::move(item));
}

// Calls of the driver that a replay makes, and bytes sent to the device asynchronously.
struct Counts {
  std::atomic<long> calls{0}, bytes{0};
} counts;

constexpr int kMultiprocessors = 4;

bool is_captured(const Stream* stream) { return stream != nullptr && stream->capture != nullptr; }

// Outside of a capture nothing is allocated: callers count that.
template <class F>
void submit(Stream* stream, F work) {
  if (is_idle()) return;
  if (is_captured(stream) || is_lazy()) {
    add(stream, {Work(work)});
  } else {
    const DeviceAccess access;
    work();
  }
}

std::string work_folder() {
  static const std::string folder = [] {
    if (const char* kept = getenv("GEX_FAKE_CUDA_FOLDER")) return std::string(kept);
    char name[] = "/tmp/gex_fake_cuda_XXXXXX";
    const std::string made = mkdtemp(name);
    static std::string to_remove;
    to_remove = "rm -rf " + made;
    atexit([] { static_cast<void>(system(to_remove.c_str())); });
    return made;
  }();
  return folder;
}

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Other processes see the whole file or none.
void keep(const std::string& path, const std::string& text) {
  const std::string unfinished = path + "." + std::to_string(getpid());
  std::ofstream(unfinished, std::ios::binary) << text;
  rename(unfinished.c_str(), path.c_str());
}

std::string name_of(const std::string& text) {
  const std::hash<std::string> hash;
  std::ostringstream name;
  name << std::hex << hash(text) << "_" << hash(text + "again");
  return name.str();
}

}  // namespace

extern "C" {

long gex_fake_calls() { return counts.calls; }
long gex_fake_bytes_sent() { return counts.bytes; }

// ---- driver ----

int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  static const std::map<int, int> known = {{13, 1'000'000},
                                           {16, kMultiprocessors},
                                           {38, 1 << 20},
                                           {75, 9},
                                           {76, 0}};  // the clock in kHz, ...
  const auto found = known.find(attribute);
  return *value = found == known.end() ? 0 : found->second, 0;
}
int cuDeviceGetName(char* name, int bytes, int) {
  return std::snprintf(name, static_cast<std::size_t>(bytes), "emulated GPU"), 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = context, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
thread_local void* current_context = nullptr;
int cuCtxSetCurrent(void* context) { return ++counts.calls, current_context = context, 0; }
int cuCtxGetCurrent(void** context) { return ++counts.calls, *context = current_context, 0; }
int cuCtxSynchronize() {
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  return drain(), fault();
}
int cuGetErrorString(int, const char** text) { return *text = "an error of the fake driver", 0; }

int cuMemAlloc_v2(DevicePtr* pointer, std::size_t bytes) {
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  void* const memory = DeviceMemory::get().allocate(bytes);
  *pointer = reinterpret_cast<DevicePtr>(memory);
  return memory == nullptr ? 2 : 0;
}
int cuMemFree_v2(DevicePtr pointer) {
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  drain();
  if (pointer != 0) DeviceMemory::get().release(reinterpret_cast<void*>(pointer));
  return 0;
}
int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  return *pointer = malloc(bytes), 0;
}
int cuMemFreeHost(void* pointer) {
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  return drain(), free(pointer), 0;
}
int cuMemcpyHtoD_v2(DevicePtr to, const void* from, std::size_t bytes) {
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  const DeviceAccess access;
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
}
int cuMemcpyHtoDAsync_v2(DevicePtr to, const void* from, std::size_t bytes, Stream* stream) {
  ++counts.calls;
  counts.bytes += static_cast<long>(bytes);
  if (is_captured(stream)) return 900;
  if (stream != nullptr) stream->is_after_kernel = false;
  submit(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, DevicePtr from, std::size_t bytes, Stream* stream) {
  if (is_captured(stream)) return 900;
  submit(stream, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  return 0;
}
int cuMemcpyDtoDAsync_v2(DevicePtr to, DevicePtr from, std::size_t bytes, Stream* stream) {
  submit(stream, [=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return 0;
}

int cuStreamCreate(Stream** stream, unsigned) {
  *stream = LiveObjects::get().add(new Stream);
  if (is_lazy()) real(nullptr), all_streams.push_back(*stream);
  return 0;
}
int cuStreamDestroy_v2(Stream* stream) {
  LiveObjects::get().remove(stream);
  drain();
  std::erase(all_streams, stream);
  return delete stream, 0;
}
int cuStreamSynchronize(Stream* stream) {
  ++counts.calls;
  if (stream != nullptr) LiveObjects::get().check(stream);
  if (fault() != 0) return fault();
  if (is_captured(stream)) return 900;
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  return drain(), fault();
}
int cuEventCreate(Event** event, unsigned flags) {
  *event = LiveObjects::get().add(new Event);
  return (*event)->is_timed = flags == 0, 0;
}
int cuEventDestroy_v2(Event* event) {
  LiveObjects::get().remove(event);
  return drain(), delete event, 0;
}
int cuEventRecord(Event* event, Stream* stream) {
  ++counts.calls;
  LiveObjects::get().check(event);
  if (stream != nullptr) LiveObjects::get().check(stream);
  const long ticket = ++event->recorded;
  event->time = KernelTimes::get().now();
  event->capture = is_captured(stream) ? stream->capture : nullptr;
  if (event->capture != nullptr || is_lazy())
    add(stream, {[=] { event->time = KernelTimes::get().now(); }, event, ticket, false});
  else
    event->reached = ticket;
  return 0;
}
// With the flag 1 and in a capture: a node of the graph, which no other stream may wait for.
int cuEventRecordWithFlags(Event* event, Stream* stream, unsigned flags) {
  if (flags == 0) return cuEventRecord(event, stream);
  LiveObjects::get().check(event);
  if (flags != 1 || !is_captured(stream) || stream->capture->is_body) return 1;
  ++event->recorded;
  event->reached = event->recorded;
  add(stream, {[=] { event->time = KernelTimes::get().now(); }});
  return 0;
}
int cuEventElapsedTime(float* milliseconds, const Event* from, const Event* to) {
  for (const Event* event : {from, to}) {
    LiveObjects::get().check(event);
    if (!event->is_timed || event->recorded == 0) return 400;
    if (event->reached < event->recorded) return 600;
  }
  return *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count(), 0;
}
int cuEventSynchronize(Event* event) {
  LiveObjects::get().check(event);
  if (event->capture != nullptr) return 907;
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  return drain(), 0;
}
int cuEventQuery(Event* event) {
  ++counts.calls;
  LiveObjects::get().check(event);
  if (event->capture != nullptr) return 907;
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  return event->reached < event->recorded ? 600 : 0;
}
// Waiting for an event of a capture is how a stream becomes part of it.
static std::atomic<int> waits{0};
int gex_fake_waits() { return waits; }
int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  ++waits;
  LiveObjects::get().check(event);
  if (event->capture != nullptr) {
    if (is_captured(stream) && stream->capture != event->capture) return 905;
    stream->capture = event->capture;
  } else if (is_captured(stream)) {
    return 905;
  }
  if (event->capture != nullptr || is_lazy()) add(stream, {{}, event, event->recorded, true});
  return 0;
}

int cuModuleLoadData(Module** module, const void* image) {
  if (const int error = CaptureRules::get().check_unsafe_call()) return error;
  if (is_idle()) return *module = new Module{nullptr, {}}, 0;
  // The table of sections is the last part of the file.
  const auto& header = *static_cast<const Elf64_Ehdr*>(image);
  const std::size_t bytes = header.e_shoff + std::size_t{header.e_shentsize} * header.e_shnum;
  static std::atomic<int> number{0};  // libraries are known by their path
  const std::string path = work_folder() + "/image" + std::to_string(number++) + ".so";
  keep(path, std::string(static_cast<const char*>(image), bytes));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink(path.c_str());
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 200;
  *module = new Module{library, {}};
  return 0;
}
int cuModuleUnload(Module* module) {
  if (module->library != nullptr) dlclose(module->library);
  delete module;
  return 0;
}
int cuModuleGetFunction(Kernel** kernel, Module* module, const char* name) {
  if (is_idle()) {
    module->kernels.push_back(std::make_unique<Kernel>(Kernel{}));
    return *kernel = module->kernels.back().get(), 0;
  }
  void* function = dlsym(module->library, name);
  const auto number = [&](const char* what) {
    return static_cast<const int*>(dlsym(module->library, (std::string(name) + what).c_str()));
  };
  const int* count = number("_parameters");
  if (function == nullptr || count == nullptr) return 500;
  const int *cluster = number("_cluster"), *threads = number("_threads");
  const auto* time = static_cast<const double*>(dlsym(module->library, "gex_microseconds"));
  const auto shared = reinterpret_cast<int (*)()>(dlsym(module->library, "gex_static_shared"));
  module->kernels.push_back(std::make_unique<Kernel>(
      Kernel{reinterpret_cast<KernelFunction>(function),
             reinterpret_cast<void (*)(unsigned, unsigned)>(dlsym(module->library, "gex_set_grid")),
             *count, reinterpret_cast<decltype(Kernel::run)>(dlsym(module->library, "run_kernel")),
             cluster == nullptr ? 1u : static_cast<unsigned>(*cluster), *threads,
             shared == nullptr ? 0 : shared(), time == nullptr ? 0 : *time}));
  *kernel = module->kernels.back().get();
  return 0;
}
int cuFuncSetAttribute(Kernel* kernel, int attribute, int value) {
  if (attribute != 8 || value < 0 || value + kernel->static_shared > fake_cuda::kMostShared)
    return 1;
  return kernel->most_shared = value, 0;
}
}
namespace {
// As the real driver: more than 48 KB of shared memory must have been asked for.
bool has_room(const Kernel& kernel, int shared) {
  return shared <= std::max(kernel.most_shared, fake_cuda::kDefaultShared - kernel.static_shared);
}
}  // namespace
extern "C" {

int cuLaunchKernel(Kernel* kernel, unsigned grid, unsigned, unsigned, unsigned block, unsigned,
                   unsigned, unsigned shared, Stream* stream, void** arguments, void**) {
  if (grid == 0 || block == 0) return 1;  // as the real one: an invalid value
  if (stream != nullptr) stream->is_after_kernel = true;
  if (stream != nullptr) LiveObjects::get().check(stream);
  if (!is_idle()) {
    if (block > static_cast<unsigned>(kernel->threads)) return 701;
    if (!has_room(*kernel, static_cast<int>(shared))) return 1;
    if (kernel->cluster > 1 && grid % kernel->cluster != 0) return 1;
    if (is_captured(stream))
      stream->capture->graph->launches.emplace_back(kernel, static_cast<int>(shared));
  }
  const auto* words = *static_cast<const long long* const*>(arguments[0]);
  const bool three = kernel->parameters == 3;
  const unsigned long long second = three ? *static_cast<unsigned long long*>(arguments[1]) : 0;
  const int third = three ? *static_cast<int*>(arguments[2]) : 0;
  if (fault() != 0) return fault();
  submit(stream, [=] {
    count_launch();
    KernelTimes::get().advance(kernel->microseconds);
    if (kernel->run != nullptr) {
      static std::mutex mutex;  // the emulation has one set of threads
      const std::lock_guard lock(mutex);
      kernel->run(kernel->function, words, grid, block, shared, kernel->cluster);
      return;
    }
    for (unsigned b = 0; b < grid; ++b) {
      kernel->set_grid(b, grid);
      kernel->function(words, second, third);
    }
  });
  return 0;
}

int cuStreamIsCapturing(Stream* stream, int* status) {
  ++counts.calls;
  return *status = is_captured(stream) ? 1 : 0, 0;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  return std::swap(*mode, CaptureRules::mode_of_thread()), 0;
}
struct LaunchAttribute {
  int id, unused;
  char value[64];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  Stream* stream;
  const LaunchAttribute* attributes;
  unsigned num_attributes;
};
int cuLaunchKernelEx(const LaunchConfig* config, Kernel* kernel, void** arguments, void** extra) {
  ++counts.calls;
  // A kernel can begin early after a kernel alone.
  const bool begins_early = config->num_attributes > 0 && config->attributes->id == 6;
  if (begins_early && (config->stream == nullptr || !config->stream->is_after_kernel)) return 1;
  if (begins_early && is_captured(config->stream) &&
      (config->stream->is_after_node || config->stream->capture->is_body))
    return 1;
  const bool cooperates = config->num_attributes > 0 && config->attributes->id == 2;
  if (!is_idle() && kernel->cluster == 0 && !cooperates) return 1;
  if (cooperates && config->grid[0] > kMultiprocessors) return 720;
  return cuLaunchKernel(kernel, config->grid[0], 1, 1, config->block[0], 1, 1, config->shared_bytes,
                        config->stream, arguments, extra);
}

int cuStreamBeginCapture_v2(Stream* stream, int mode) {
  LiveObjects::get().check(stream);
  if (is_captured(stream)) return 900;
  stream->capture = new Capture{stream, {}, new Graph, false};
  CaptureRules::get().begin(stream->capture, mode);
  stream->is_after_node = stream->is_after_kernel = false;
  return 0;
}
// Fails if a stream that joined the capture has work that its first stream does not wait for.
int cuStreamEndCapture(Stream* stream, Graph** graph) {
  Capture* capture = stream->capture;
  if (capture == nullptr || capture->origin != stream) return 901;
  std::map<Stream*, const Item*> last;
  for (const auto& [at, item] : capture->items) last[at] = &item;
  const auto is_joined = [&](const Item& end) {
    return end.event != nullptr && !end.waits &&
           std::any_of(capture->items.begin(), capture->items.end(), [&](const auto& entry) {
             return entry.first == stream && entry.second.waits &&
                    entry.second.event == end.event && entry.second.ticket == end.ticket;
           });
  };
  bool joined = true;
  for (const auto& [at, item] : last) {
    at->capture = nullptr;
    joined = joined && (at == stream || is_joined(*item));
  }
  stream->capture = nullptr;
  const bool valid = CaptureRules::get().end(capture);
  capture->graph->items = std::move(capture->items);
  const bool good = joined && valid;
  *graph = good ? capture->graph : nullptr;
  if (!good && !capture->is_body) delete capture->graph;
  delete capture;
  return good ? 0 : valid ? 904 : 901;
}
int cuGraphInstantiateWithFlags(Graph** exec, const Graph* graph, unsigned long long) {
  for (const auto& condition : graph->conditions)
    if (!condition->used) return 1;
  for (const auto& [kernel, shared] : graph->launches)
    if (!has_room(*kernel, shared)) return 1;
  return *exec = LiveObjects::get().add(new Graph(*graph)), 0;
}
int cuGraphDestroy(Graph* graph) { return delete graph, 0; }
int cuGraphExecDestroy(Graph* exec) {
  LiveObjects::get().remove(exec);
  return delete exec, 0;
}
int cuGraphLaunch(Graph* exec, Stream* stream) {
  ++counts.calls;
  LiveObjects::get().check(exec);
  if (stream != nullptr) LiveObjects::get().check(stream);
  if (is_captured(stream)) return 900;
  if (fault() != 0) return fault();
  if (is_lazy()) {
    add(stream, {[graph = *exec] { run_graph(graph); }});
  } else {
    const DeviceAccess access;
    run_graph(*exec);
  }
  return 0;
}

// ---- conditional nodes ----

// GEX_FAKE_CUDA_VERSION: of an older driver.
int cuDriverGetVersion(int* version) {
  const char* text = getenv("GEX_FAKE_CUDA_VERSION");
  return *version = text == nullptr ? 13000 : atoi(text), 0;
}
int cuStreamGetCaptureInfo_v3(Stream* stream, int* status, unsigned long long* number,
                              Graph** graph, const void** dependencies, const void** edges,
                              std::size_t* count) {
  *status = is_captured(stream) ? 1 : 0;
  if (*status == 0) return 0;
  stream->self = stream;
  *number = reinterpret_cast<unsigned long long>(stream->capture);
  *graph = stream->capture->graph;
  *dependencies = &stream->self;
  *edges = nullptr;
  *count = 1;
  return 0;
}
int cuGraphConditionalHandleCreate(unsigned long long* handle, Graph* graph, void*, unsigned value,
                                   unsigned flags) {
  if (flags != 1) return 1;  // unset conditions have no value
  graph->conditions.push_back(std::make_shared<Condition>(Condition{value, value, false}));
  return *handle = reinterpret_cast<unsigned long long>(graph->conditions.back().get()), 0;
}
struct ConditionalNode {
  int type, reserved[3];
  unsigned long long handle;
  int kind;
  unsigned size;
  Graph** bodies;
  void* context;
};
// Behind the last work of the stream that `dependencies` stands for.
int cuGraphAddNode_v2(const void** node, Graph* graph, Stream* const* dependencies, const void*,
                      std::size_t count, ConditionalNode* params) {
  if (count != 1 || params->type != 13 || params->size != 1 || params->context == nullptr) return 1;
  Stream* const stream = dependencies[0];
  if (stream->capture == nullptr || stream->capture->graph != graph) return 1;
  std::shared_ptr<Condition> condition;
  for (const auto& made : graph->conditions)
    if (reinterpret_cast<unsigned long long>(made.get()) == params->handle) condition = made;
  if (condition == nullptr || condition->used) return 1;
  condition->used = true;
  const auto body = std::make_shared<Graph>();
  static thread_local Graph* made;
  made = body.get();
  params->bodies = &made;
  const bool loops = params->kind == 1;
  add(stream, {[=] {
        for (bool again = condition->value != 0; again; again = loops && condition->value != 0)
          run_graph(*body);
      }});
  return *node = stream->added = body.get(), 0;
}
int cuStreamUpdateCaptureDependencies_v2(Stream* stream, const void* const* nodes, const void*,
                                         std::size_t count, unsigned flags) {
  if (flags != 1 || count != 1 || nodes[0] != stream->added) return 1;
  stream->added = nullptr;
  stream->is_after_node = true;
  return 0;
}
int cuStreamBeginCaptureToGraph(Stream* stream, Graph* graph, const void*, const void*,
                                std::size_t count, int mode) {
  if (is_captured(stream)) return 900;
  if (count != 0 || !graph->items.empty()) return 1;
  stream->capture = new Capture{stream, {}, graph, true};
  CaptureRules::get().begin(stream->capture, mode);
  stream->is_after_node = false;
  return 0;
}

// ---- NVRTC ----

int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
  if (getenv("GEX_FAKE_NO_NVRTC") != nullptr) return 1;
  return *program = new Program{source, "", ""}, 0;
}
// Images that caches keep are of the emulation that made them.
int nvrtcVersion(int* major, int* minor) {
  static const std::size_t texts = std::hash<std::string>()(
      std::string(is_idle() ? "idle" : kEmulation) + gex::codegen::kEmulationChecks +
      gex::codegen::kEmulation + gex::codegen::kEmulatedRun +
      (KernelTimes::given() == nullptr ? "" : KernelTimes::given()));
  return *major = 13, *minor = static_cast<int>(texts % 1'000'000'000), 0;
}
int nvrtcDestroyProgram(Program** program) { return delete *program, 0; }

// With GEX_FAKE_CUDA_CACHE images are kept in that folder, by the text that they were made of.
int nvrtcCompileProgram(Program* program, int, const char* const*) {
  if (is_idle()) return program->image = "idle", 0;
  std::string text = host_text(program->source);
  if (KernelTimes::given() != nullptr)
    text += "\nextern \"C\" { double gex_microseconds = " +
            std::to_string(KernelTimes::get().of(program->source)) + "; }\n";
  if (const char* folder = getenv("GEX_FAKE_CUDA_SOURCES"))
    keep(std::string(folder) + "/" + name_of(program->source) + ".cu", program->source);
  const char* cache = getenv("GEX_FAKE_CUDA_CACHE");
  const std::string kept = cache == nullptr ? "" : std::string(cache) + "/" + name_of(text) + ".so";
  if (cache != nullptr && access(kept.c_str(), R_OK) == 0) {
    program->image = contents(kept);
    return 0;
  }
  static std::atomic<int> number{0};
  const std::string stem = work_folder() + "/kernel" + std::to_string(number++);
  std::ofstream(stem + ".cpp") << text;
  const std::string compiler = "c++ -std=c++20 -O0 -w -fPIC -pthread ",
                    log = " >> " + stem + ".log 2>&1";
  const std::string command = compiler + gex::codegen::kEmulationChecks + " -c -o " + stem + ".o " +
                              stem + ".cpp" + log + " && " + compiler + "-shared -o " + stem +
                              ".so " + stem + ".o" + log;
  const bool good = system(command.c_str()) == 0;
  program->log = contents(stem + ".log");
  if (good) program->image = contents(stem + ".so");
  for (const char* ending : {".cpp", ".log", ".o", ".so"}) unlink((stem + ending).c_str());
  if (good && cache != nullptr) keep(kept, program->image);
  return good ? 0 : 6;
}
int nvrtcGetProgramLogSize(Program* program, std::size_t* bytes) {
  return *bytes = program->log.size() + 1, 0;
}
int nvrtcGetProgramLog(Program* program, char* text) {
  return std::memcpy(text, program->log.c_str(), program->log.size() + 1), 0;
}
int nvrtcGetCUBINSize(Program* program, std::size_t* bytes) {
  return *bytes = program->image.size(), 0;
}
int nvrtcGetCUBIN(Program* program, char* data) {
  return std::memcpy(data, program->image.data(), program->image.size()), 0;
}

// ---- cuBLAS ----

int cublasCreate_v2(Handle** handle) { return *handle = new Handle, 0; }
int cublasDestroy_v2(Handle* handle) { return delete handle, 0; }
int cublasSetStream_v2(Handle* handle, Stream* stream) { return handle->stream = stream, 0; }
int cublasSetWorkspace_v2(Handle*, void*, std::size_t) { return 0; }

int cublasGemmStridedBatchedEx(Handle* handle, int trans_a, int trans_b, int m, int n, int k,
                               const void*, const void* a, int type, int lda, long long a_step,
                               const void* b, int, int ldb, long long b_step, const void*, void* c,
                               int, int ldc, long long c_step, int batch, int, int) {
  if (is_idle()) return 0;
  if (type != 0) return 15;  // f32 alone
  if (handle->stream != nullptr) handle->stream->is_after_kernel = true;
  submit(handle->stream, [=] {
    KernelTimes::get().advance(KernelTimes::get().of("cublas"));
    for (int i = 0; i < batch; ++i) {
      const float* x = static_cast<const float*>(a) + i * a_step;
      const float* y = static_cast<const float*>(b) + i * b_step;
      float* z = static_cast<float*>(c) + i * c_step;
      for (int column = 0; column < n; ++column) {
        for (int row = 0; row < m; ++row) {
          double sum = 0;
          for (int p = 0; p < k; ++p)
            sum += static_cast<double>(x[trans_a != 0 ? row * lda + p : p * lda + row]) *
                   static_cast<double>(y[trans_b != 0 ? p * ldb + column : column * ldb + p]);
          z[column * ldc + row] = static_cast<float>(sum);
        }
      }
    }
  });
  return 0;
}

}  // extern "C"
