#include "runtime/session/tool_range.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

namespace gex::runtime {

namespace {

// Entry points of Intel's collector, declared by hand as in ittnotify.h.
struct IttId {
  unsigned long long numbers[3] = {};
};

struct Itt {
  void* (*create_domain)(const char* name) = nullptr;
  void* (*create_name)(const char* name) = nullptr;
  void (*begin)(const void* domain, IttId task, IttId parent, void* name) = nullptr;
  void (*end)(const void* domain) = nullptr;
  const void* domain = nullptr;
};

template <class Function>
bool find(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  return function != nullptr;
}

// Null if no tool asks for ranges, or its library lacks them.
const Itt* itt() {
  static const Itt* const opened = []() -> const Itt* {
    const char* path = std::getenv("INTEL_LIBITTNOTIFY64");
    if (path == nullptr || *path == '\0') return nullptr;
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    auto found = std::make_unique<Itt>();
    if (library == nullptr || !find(library, "__itt_domain_create", found->create_domain) ||
        !find(library, "__itt_string_handle_create", found->create_name) ||
        !find(library, "__itt_task_begin", found->begin) ||
        !find(library, "__itt_task_end", found->end))
      return nullptr;
    found->domain = found->create_domain("gex");
    return found->domain != nullptr ? found.release() : nullptr;
  }();
  return opened;
}

}  // namespace

ToolRange::ToolRange(const char* name) : nvidia_(name) {
  // The collector returns the same handle for the same name.
  if (const Itt* api = itt()) api->begin(api->domain, {}, {}, api->create_name(name));
}

ToolRange::~ToolRange() {
  if (const Itt* api = itt()) api->end(api->domain);
}

}  // namespace gex::runtime
