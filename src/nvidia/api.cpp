#include "nvidia/api.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

namespace gex::nvidia {

namespace {

void* open_library(std::initializer_list<const char*> names, std::string& why_not) {
  std::vector<std::string> folders = {""};
  if (const char* path = std::getenv("GEX_CUDA_LIBRARY_PATH")) {
    std::istringstream list(path);
    folders.clear();
    for (std::string folder; std::getline(list, folder, ':');) folders.push_back(folder + "/");
    folders.emplace_back("");
  }
  for (const std::string& folder : folders)
    for (const char* name : names)
      if (void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  why_not = std::string(*names.begin()) +
            " can't be opened; install it or set GEX_CUDA_LIBRARY_PATH to its folder";
  return nullptr;
}

template <class Function>
bool find(void* library, const char* symbol, Function*& function, std::string& why_not) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  if (function == nullptr)
    why_not = std::string(symbol) + " is missing from its library, which is too old";
  return function != nullptr;
}

// One library, opened on first use.
template <class Api>
struct Opened {
  Api api;
  bool good = false;
  std::string why_not;
};

#define GEX_CUDA_FIND(member, symbol, parameters) \
  opened.good = opened.good && find(library, symbol, opened.api.member, opened.why_not);

Opened<DriverApi> open_driver() {
  Opened<DriverApi> opened;
  void* library = open_library({"libcuda.so.1"}, opened.why_not);
  opened.good = library != nullptr;
  if (opened.good) {
    GEX_CUDA_DRIVER(GEX_CUDA_FIND)
  }
  return opened;
}

Opened<ConditionalApi> open_conditional() {
  Opened<ConditionalApi> opened;
  void* library = open_library({"libcuda.so.1"}, opened.why_not);
  opened.good = library != nullptr;
  if (!opened.good) return opened;
  GEX_CUDA_CONDITIONAL(GEX_CUDA_FIND)
  int version = 0;
  if (!opened.good || opened.api.driver_version(&version) != 0 || version < kConditionalDriver) {
    opened.good = false;
    opened.why_not = "the CUDA driver is older than 12.4, whose graphs have conditional nodes";
  }
  return opened;
}

Opened<NvrtcApi> open_nvrtc() {
  Opened<NvrtcApi> opened;
  void* library = open_library(
      {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}, opened.why_not);
  opened.good = library != nullptr;
  if (opened.good) {
    GEX_CUDA_NVRTC(GEX_CUDA_FIND)
  }
  return opened;
}

Opened<CublasApi> open_cublas() {
  Opened<CublasApi> opened;
  void* library = open_library(
      {"libcublas.so", "libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}, opened.why_not);
  opened.good = library != nullptr;
  if (opened.good) {
    GEX_CUDA_CUBLAS(GEX_CUDA_FIND)
  }
  return opened;
}

#undef GEX_CUDA_FIND

template <class Api>
const Api* result(const Opened<Api>& opened, std::string& why_not) {
  if (!opened.good) why_not = opened.why_not;
  return opened.good ? &opened.api : nullptr;
}

struct Nvtx {
  int (*push)(const char* name) = nullptr;
  int (*pop)() = nullptr;
};

// Null if no tool asks for ranges or the library is missing: then there are no ranges.
const Nvtx* nvtx() {
  static const Nvtx* const opened = []() -> const Nvtx* {
    const char* tool = std::getenv("NVTX_INJECTION64_PATH");
    if (tool == nullptr || *tool == '\0') return nullptr;
    std::string why_not;
    void* library = open_library({"libnvToolsExt.so.1"}, why_not);
    auto found = std::make_unique<Nvtx>();
    const bool whole = library != nullptr &&
                       find(library, "nvtxRangePushA", found->push, why_not) &&
                       find(library, "nvtxRangePop", found->pop, why_not);
    return whole ? found.release() : nullptr;
  }();
  return opened;
}

}  // namespace

ToolRange::ToolRange(const char* name) {
  if (const Nvtx* api = nvtx()) api->push(name);
}

ToolRange::~ToolRange() {
  if (const Nvtx* api = nvtx()) api->pop();
}

const DriverApi* driver_api(std::string& why_not) {
  static const auto* opened = new Opened<DriverApi>(open_driver());
  return result(*opened, why_not);
}

const ConditionalApi* conditional_api(std::string& why_not) {
  static const auto* opened = new Opened<ConditionalApi>(open_conditional());
  return result(*opened, why_not);
}

const NvrtcApi* nvrtc_api(std::string& why_not) {
  static const auto* opened = new Opened<NvrtcApi>(open_nvrtc());
  return result(*opened, why_not);
}

const CublasApi* cublas_api(std::string& why_not) {
  static const auto* opened = new Opened<CublasApi>(open_cublas());
  return result(*opened, why_not);
}

}  // namespace gex::nvidia
