#include "runtime/drivers/cuda/compile.hpp"

#include <mutex>
#include <unordered_map>

#include "base/error.hpp"
#include "runtime/drivers/cuda/api.hpp"

namespace gex::runtime::cuda {

namespace {

// Texts kept; beyond that all are forgotten, which costs compiles and bounds memory.
constexpr std::size_t kMaxKept = 1024;

std::shared_ptr<const std::string> compile(const std::string& name, const std::string& source,
                                           const std::string& architecture) {
  std::string why_not;
  const NvrtcApi* nvrtc = nvrtc_api(why_not);
  if (nvrtc == nullptr) fail(ErrorCode::unsupported, "no compiler for CUDA text: ", why_not);
  const auto check = [&](Result result, const char* what) {
    if (result != 0) fail(ErrorCode::device_error, "NVRTC: ", what, " failed with code ", result);
  };
  void* program = nullptr;
  check(nvrtc->create(&program, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr),
        "making a program");
  const std::shared_ptr<void> destroyer(program, [nvrtc](void* p) { nvrtc->destroy(&p); });
  const std::string target = "--gpu-architecture=" + architecture;
  // Rounding as PyTorch's eager mode: no contraction into fused multiply-adds.
  const char* options[] = {target.c_str(), "--fmad=false", "--std=c++17"};
  if (nvrtc->compile(program, 3, options) != 0) {
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

std::shared_ptr<const std::string> compile_cubin(const std::string& name, const std::string& source,
                                                 const std::string& architecture) {
  static auto* mutex = new std::mutex;
  static auto* kept = new std::unordered_map<std::string, std::shared_ptr<const std::string>>;
  const std::string key = architecture + "\n" + source;
  {
    const std::lock_guard lock(*mutex);
    if (const auto found = kept->find(key); found != kept->end()) return found->second;
  }
  auto cubin = compile(name, source, architecture);
  const std::lock_guard lock(*mutex);
  if (kept->size() >= kMaxKept) kept->clear();
  kept->emplace(key, cubin);
  return cubin;
}

}  // namespace gex::runtime::cuda
