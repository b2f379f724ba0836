#include "backend/cuda/nvrtc.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/error.hpp"
#include "cache/object_store.hpp"
#include "nvidia/api.hpp"

namespace gex::backend::cuda {

namespace {

// Limit on the number of cached texts; when it is reached the cache is cleared, to bound memory.
constexpr std::size_t kMaxKept = 1024;

std::shared_ptr<const std::string> compile(const std::string& name, const std::string& source,
                                           const std::string& architecture) {
  std::string why_not;
  const nvidia::NvrtcApi* nvrtc = nvidia::nvrtc_api(why_not);
  if (nvrtc == nullptr) fail(ErrorCode::unsupported, "no compiler for CUDA text: ", why_not);
  const auto check = [&](nvidia::Result result, const char* what) {
    if (result != 0) fail(ErrorCode::device_error, "NVRTC: ", what, " failed with code ", result);
  };
  void* program = nullptr;
  check(nvrtc->create(&program, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr),
        "making a program");
  const std::shared_ptr<void> destroyer(program, [nvrtc](void* p) { nvrtc->destroy(&p); });
  const std::string target = "--gpu-architecture=" + architecture;
  // Rounding as PyTorch's eager mode: no contraction into fused multiply-adds.
  const char* options[] = {target.c_str(), "--fmad=false", "--std=c++17", "-w"};
  if (nvrtc->compile(program, static_cast<int>(std::size(options)), options) != 0) {
    std::size_t size = 0;
    check(nvrtc->log_size(program, &size), "reading the log");
    std::string log(size, '\0');
    check(nvrtc->log(program, log.data()), "reading the log");
    fail(ErrorCode::unsupported, "CUDA text of \"", name, "\" does not compile: ", log);
  }
  std::size_t size = 0;
  check(nvrtc->cubin_size(program, &size), "reading the code");
  auto cubin = std::make_shared<std::string>(size, '\0');
  check(nvrtc->cubin(program, cubin->data()), "reading the code");
  return cubin;
}

}  // namespace

namespace {

using Cubin = std::shared_ptr<const std::string>;

struct Kept {
  std::mutex mutex;
  std::unordered_map<std::string, Cubin> cubins;  // by architecture and text

  Cubin find(const std::string& key) {
    const std::lock_guard lock(mutex);
    const auto found = cubins.find(key);
    return found == cubins.end() ? nullptr : found->second;
  }
  void add(const std::string& key, Cubin cubin) {
    const std::lock_guard lock(mutex);
    if (cubins.size() >= kMaxKept) cubins.clear();
    cubins.emplace(key, std::move(cubin));
  }
  static Kept& get() {
    static auto* kept = new Kept;
    return *kept;
  }
};

Cubin compiled(const Source& source, const std::string& architecture, ObjectStore* objects) {
  const std::string key = architecture + "\n" + source.text;
  if (Cubin kept = Kept::get().find(key)) return kept;
  const std::string object_key = "cubin " + nvrtc_version() + " " + key;
  Cubin cubin;
  if (objects != nullptr)
    if (std::optional<std::string> object = objects->load(object_key))
      cubin = std::make_shared<const std::string>(std::move(*object));
  if (cubin == nullptr) {
    cubin = compile(source.name, source.text, architecture);
    if (objects != nullptr) objects->save(object_key, source.name, *cubin);
  }
  Kept::get().add(key, cubin);
  return cubin;
}

}  // namespace

std::string nvrtc_version() {
  std::string why_not;
  const nvidia::NvrtcApi* nvrtc = nvidia::nvrtc_api(why_not);
  int major = 0, minor = 0;
  if (nvrtc == nullptr || nvrtc->version(&major, &minor) != 0) return "";
  return std::to_string(major) + "." + std::to_string(minor);
}

std::vector<Cubin> compile_cubins(const std::vector<Source>& sources,
                                  const std::string& architecture, ObjectStore* objects) {
  std::vector<Cubin> cubins(sources.size());
  std::unordered_map<std::string_view, std::size_t> first;  // of equal texts
  std::vector<std::size_t> distinct;
  for (std::size_t k = 0; k < sources.size(); ++k)
    if (first.try_emplace(sources[k].text, k).second) distinct.push_back(k);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < distinct.size(); i = next++) {
      try {
        const std::size_t k = distinct[i];
        cubins[k] = compiled(sources[k], architecture + (sources[k].specific ? "a" : ""), objects);
      } catch (const Error&) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  // NVRTC compiles on the calling thread; more threads than this gain little.
  constexpr std::size_t kThreads = 8;
  const std::size_t helpers =
      std::min({kThreads, distinct.size(), std::size_t{std::thread::hardware_concurrency()}});
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < helpers; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  for (std::size_t k = 0; k < sources.size(); ++k) cubins[k] = cubins[first.at(sources[k].text)];
  return cubins;
}

}  // namespace gex::backend::cuda
