// A CUDA driver, NVRTC and cuBLAS that run on the host, with the entry points that gex opens:
// enough to put the CUDA drivers through the conformance suite where there is no GPU. Device memory
// is host memory (filled with garbage; with GEX_FAKE_CUDA_PROTECT=1 it can't be touched but by what
// the driver runs, so that host code that follows a device pointer ends with a signal), a "cubin"
// is a shared library that the host's compiler made, kernels run block by block on one
// thread, captured streams collect functions. With GEX_FAKE_CUDA_LAZY=1 nothing runs before
// somebody waits, and then streams made later run first as far as events allow: steps that lack one
// go wrong. Libraries of kernels stay in GEX_FAKE_CUDA_FOLDER, if it is set, for later processes;
// GEX_FAKE_CUDA_SOURCES is a folder for the CUDA text of what is compiled; with GEX_FAKE_NO_NVRTC=1
// nothing can be compiled. With GEX_FAKE_CUDA_IDLE=1 nothing is compiled, launched or copied, so
// that what is left of a call is the host's own time.

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <sys/mman.h>
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
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../../codegen/cuda_emulation_text.hpp"

namespace {

using Work = std::function<void()>;
using DevicePtr = unsigned long long;

struct Capture;
struct Event {
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
};
using Items = std::vector<std::pair<Stream*, Item>>;  // in the order of the calls
struct Capture {
  Stream* origin = nullptr;
  Items items;
};
using KernelFunction = void (*)(const long long*, unsigned long long, int);
struct Kernel {
  KernelFunction function;
  void (*set_grid)(unsigned block, unsigned grid);
  int parameters;
  // Of generated kernels, whose threads run one by one; else null.
  void (*run)(KernelFunction, const long long* words, unsigned blocks, unsigned threads,
              long long shared, unsigned cluster);
  unsigned cluster;
};
struct Module {
  void* library;
  std::vector<std::unique_ptr<Kernel>> kernels;
};
struct Graph {
  Items items;
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
// Device memory where host code must not touch it.
class ProtectedMemory {
 public:
  static ProtectedMemory* get() {
    static ProtectedMemory* const memory =
        getenv("GEX_FAKE_CUDA_PROTECT") != nullptr ? new ProtectedMemory : nullptr;
    return memory;
  }
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
    void* memory =
        mmap(nullptr, pages, users_ > 0 ? kOpen : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    sizes_[memory] = pages;
    return memory;
  }
  void release(void* memory) {
    const std::lock_guard lock(mutex_);
    munmap(memory, sizes_.at(memory));
    sizes_.erase(memory);
  }
  void open() { change(1, kOpen); }
  void close() { change(-1, PROT_NONE); }

 private:
  static constexpr int kOpen = PROT_READ | PROT_WRITE;
  static constexpr std::size_t kPage = 4096;
  void change(int users, int protection) {
    const std::lock_guard lock(mutex_);
    const bool matters = users > 0 ? users_ == 0 : users_ == 1;
    users_ += users;
    if (!matters) return;
    for (const auto& [memory, size] : sizes_) mprotect(memory, size, protection);
  }
  std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
  int users_ = 0;
};

// While the driver itself works.
struct DeviceAccess {
  DeviceAccess() {
    if (ProtectedMemory* memory = ProtectedMemory::get()) memory->open();
  }
  ~DeviceAccess() {
    if (ProtectedMemory* memory = ProtectedMemory::get()) memory->close();
  }
};

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

void add(Stream* stream, Item item) {
  stream = real(stream);
  if (stream->capture != nullptr)
    stream->capture->items.emplace_back(stream, std::move(item));
  else
    stream->pending.push_back(std::move(item));
}

// Calls of the driver that a replay makes, and bytes sent to the device asynchronously.
struct Counts {
  std::atomic<long> calls{0}, bytes{0};
} counts;

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

// What CUDA gives a kernel. One thread is a whole block: every loop over threads steps by one.
const char* const kEmulation = R"(
#define GEX_EMULATED
#include <math.h>
struct GexDim3 { unsigned x; };
static thread_local GexDim3 threadIdx = {0}, blockIdx, blockDim = {1}, gridDim;
static thread_local unsigned char gex_locals[1 << 16] __attribute__((aligned(64)));
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static thread_local
#define __syncthreads()
#define GEX_DECLARE_LOCALS
template <class T> void atomicAdd(T* p, T v) { *p += v; }
namespace gex { float f16_to_f32(unsigned short); unsigned short f32_to_f16(float); }
static inline float of_f16(unsigned short h) { return gex::f16_to_f32(h); }
static inline unsigned short to_f16(float f) { return gex::f32_to_f16(f); }
extern "C" void gex_set_grid(unsigned block, unsigned grid) { blockIdx.x = block; gridDim.x = grid; }
)";

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

// The kernels with what CUDA provides to them, and a description of each.
std::string host_text(const std::string& source) {
  // Generated kernels begin with the prelude, and need threads that meet at barriers.
  const bool generated = source.find("GEX_FN") != std::string::npos;
  std::ostringstream text;
  text << (generated ? gex::codegen::kEmulation : kEmulation) << source;
  static const std::regex kernels(R"(__global__ void((?: __\w+__\([^)]*\))*) (\w+)\(([^)]*)\))");
  static const std::regex clusters(R"(__cluster_dims__\((\d+))");
  std::sregex_iterator found(source.begin(), source.end(), kernels), end;
  for (; found != end; ++found) {
    const std::string attributes = (*found)[1], name = (*found)[2], parameters = (*found)[3];
    std::smatch cluster;
    const bool clustered = std::regex_search(attributes, cluster, clusters);
    const auto count = 1 + std::count(parameters.begin(), parameters.end(), ',');
    text << "\nextern \"C\" { int " << name << "_parameters = " << count << "; int " << name
         << "_cluster = "
         << (clustered                    ? cluster[1].str()
             : name == "gex_super_kernel" ? "0"
                                          : "1")
         << "; }\n";
  }
  if (generated) text << gex::codegen::kEmulatedRun;
  return text.str();
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
  static const std::map<int, int> known = {
      {13, 1'000'000}, {16, 4}, {38, 1 << 20}, {75, 9}, {76, 0}};  // the clock in kHz, ...
  const auto found = known.find(attribute);
  return *value = found == known.end() ? 0 : found->second, 0;
}
int cuDeviceGetName(char* name, int bytes, int) {
  return std::snprintf(name, static_cast<std::size_t>(bytes), "emulated GPU"), 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = context, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return ++counts.calls, 0; }
int cuGetErrorString(int, const char** text) { return *text = "an error of the fake driver", 0; }

int cuMemAlloc_v2(DevicePtr* pointer, std::size_t bytes) {
  ProtectedMemory* guarded = ProtectedMemory::get();
  void* memory = guarded ? guarded->allocate(bytes) : aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return 2;
  const DeviceAccess access;
  std::memset(memory, 0xcd, bytes);
  *pointer = reinterpret_cast<DevicePtr>(memory);
  return 0;
}
int cuMemFree_v2(DevicePtr pointer) {
  drain();
  void* memory = reinterpret_cast<void*>(pointer);
  if (ProtectedMemory* guarded = ProtectedMemory::get())
    guarded->release(memory);
  else
    free(memory);
  return 0;
}
int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return *pointer = malloc(bytes), 0;
}
int cuMemFreeHost(void* pointer) { return drain(), free(pointer), 0; }
int cuMemcpyHtoD_v2(DevicePtr to, const void* from, std::size_t bytes) {
  const DeviceAccess access;
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
}
int cuMemcpyHtoDAsync_v2(DevicePtr to, const void* from, std::size_t bytes, Stream* stream) {
  ++counts.calls;
  counts.bytes += static_cast<long>(bytes);
  if (is_captured(stream)) return 900;
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
  *stream = new Stream;
  if (is_lazy()) real(nullptr), all_streams.push_back(*stream);
  return 0;
}
int cuStreamDestroy_v2(Stream* stream) {
  drain();
  std::erase(all_streams, stream);
  return delete stream, 0;
}
int cuStreamSynchronize(Stream* stream) {
  ++counts.calls;
  if (fault() != 0) return fault();
  if (is_captured(stream)) return 900;
  return drain(), fault();
}
int cuEventCreate(Event** event, unsigned) { return *event = new Event, 0; }
int cuEventDestroy_v2(Event* event) { return drain(), delete event, 0; }
int cuEventRecord(Event* event, Stream* stream) {
  ++counts.calls;
  const long ticket = ++event->recorded;
  event->time = std::chrono::steady_clock::now();
  event->capture = is_captured(stream) ? stream->capture : nullptr;
  if (event->capture != nullptr || is_lazy())
    add(stream, {[=] { event->time = std::chrono::steady_clock::now(); }, event, ticket, false});
  else
    event->reached = ticket;
  return 0;
}
// With the flag 1 and in a capture: a node of the graph, which no other stream may wait for.
int cuEventRecordWithFlags(Event* event, Stream* stream, unsigned flags) {
  if (flags == 0) return cuEventRecord(event, stream);
  if (flags != 1 || !is_captured(stream)) return 1;
  add(stream, {[=] { event->time = std::chrono::steady_clock::now(); }});
  return 0;
}
int cuEventElapsedTime(float* milliseconds, const Event* from, const Event* to) {
  return *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count(), 0;
}
int cuEventSynchronize(Event* event) { return event->capture != nullptr ? 900 : (drain(), 0); }
int cuEventQuery(Event* event) {
  ++counts.calls;
  return event->reached < event->recorded ? 600 : 0;
}
// Waiting for an event of a capture is how a stream becomes part of it.
static std::atomic<int> waits{0};
int gex_fake_waits() { return waits; }
int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  ++waits;
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
  const int* cluster = number("_cluster");
  module->kernels.push_back(std::make_unique<Kernel>(
      Kernel{reinterpret_cast<KernelFunction>(function),
             reinterpret_cast<void (*)(unsigned, unsigned)>(dlsym(module->library, "gex_set_grid")),
             *count, reinterpret_cast<decltype(Kernel::run)>(dlsym(module->library, "run_kernel")),
             cluster == nullptr ? 1u : static_cast<unsigned>(*cluster)}));
  *kernel = module->kernels.back().get();
  return 0;
}
int cuFuncSetAttribute(Kernel*, int, int) { return 0; }

int cuLaunchKernel(Kernel* kernel, unsigned grid, unsigned, unsigned, unsigned block, unsigned,
                   unsigned, unsigned shared, Stream* stream, void** arguments, void**) {
  if (grid == 0 || block == 0) return 1;  // as the real one: an invalid value
  const auto* words = *static_cast<const long long* const*>(arguments[0]);
  const bool three = kernel->parameters == 3;
  const unsigned long long second = three ? *static_cast<unsigned long long*>(arguments[1]) : 0;
  const int third = three ? *static_cast<int*>(arguments[2]) : 0;
  if (fault() != 0) return fault();
  submit(stream, [=] {
    count_launch();
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
  static thread_local int present = 0;  // global, as the real one's
  return std::swap(*mode, present), 0;
}
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  Stream* stream;
};
int cuLaunchKernelEx(const LaunchConfig* config, Kernel* kernel, void** arguments, void** extra) {
  ++counts.calls;
  return cuLaunchKernel(kernel, config->grid[0], 1, 1, config->block[0], 1, 1, config->shared_bytes,
                        config->stream, arguments, extra);
}

int cuStreamBeginCapture_v2(Stream* stream, int) {
  if (is_captured(stream)) return 900;
  stream->capture = new Capture{stream, {}};
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
  *graph = joined ? new Graph{std::move(capture->items)} : nullptr;
  delete capture;
  return joined ? 0 : 904;
}
int cuGraphInstantiateWithFlags(Graph** exec, const Graph* graph, unsigned long long) {
  return *exec = new Graph(*graph), 0;
}
int cuGraphDestroy(Graph* graph) { return delete graph, 0; }
int cuGraphExecDestroy(Graph* exec) { return delete exec, 0; }
int cuGraphLaunch(Graph* exec, Stream* stream) {
  ++counts.calls;
  if (is_captured(stream)) return 900;
  if (is_lazy()) {
    add(stream, {[items = exec->items] { run_items(items); }});
  } else {
    const DeviceAccess access;
    run_items(exec->items);
  }
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
  static const std::size_t texts =
      std::hash<std::string>()(std::string(is_idle() ? "idle" : kEmulation) +
                               gex::codegen::kEmulation + gex::codegen::kEmulatedRun);
  return *major = 13, *minor = static_cast<int>(texts % 1'000'000'000), 0;
}
int nvrtcDestroyProgram(Program** program) { return delete *program, 0; }

// With GEX_FAKE_CUDA_CACHE images are kept in that folder, by the text that they were made of.
int nvrtcCompileProgram(Program* program, int, const char* const*) {
  if (is_idle()) return program->image = "idle", 0;
  const std::string text = host_text(program->source);
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
  const std::string command = "c++ -std=c++20 -O0 -w -shared -fPIC -pthread -o " + stem + ".so " +
                              stem + ".cpp > " + stem + ".log 2>&1";
  const bool good = system(command.c_str()) == 0;
  program->log = contents(stem + ".log");
  if (good) program->image = contents(stem + ".so");
  for (const char* ending : {".cpp", ".log", ".so"}) unlink((stem + ending).c_str());
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
  submit(handle->stream, [=] {
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
