#include "backend/cpu/generator.hpp"

#include <dlfcn.h>

#include "base/error.hpp"

namespace gex::codegen {
namespace {

constexpr const char* kLibrary = "libgex_llvm.so";

std::string own_folder() {
  Dl_info info;
  // The address of a local function: an exported one might resolve to another copy of the library.
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || !info.dli_fname) return "";
  std::string path = info.dli_fname;
  auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

struct Opened {
  Generator* generator = nullptr;
  std::string why_not;
};

Opened open_library() {
  std::string path = own_folder() + kLibrary;
  // RTLD_LOCAL: LLVM's symbols must not clash with those of another LLVM in the process.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    return {
        nullptr,
        str("the CPU code generator can't be loaded: ", reason ? reason : "unknown reason",
            ". Build with -DGEX_LLVM=ON (LLVM 17 or newer, e.g. Debian's llvm-19-dev) and keep ",
            kLibrary, " in the folder of libgex")};
  }
  using Entry = Generator* (*)(int version, const char** why_not);
  auto entry = reinterpret_cast<Entry>(dlsym(library, "gex_llvm_generator"));
  const char* reason = "it has no entry point";
  Generator* generator = entry ? entry(kGeneratorVersion, &reason) : nullptr;
  if (!generator)
    return {nullptr, str("the CPU code generator ", path, " can't be used: ", reason)};
  return {generator, ""};
}

}  // namespace

Generator* llvm_generator(std::string* why_not) {
  static const Opened opened = open_library();
  if (!opened.generator && why_not) *why_not = opened.why_not;
  return opened.generator;
}

}  // namespace gex::codegen
