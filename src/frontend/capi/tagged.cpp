#include "frontend/capi/tagged.hpp"

#include <deque>
#include <map>
#include <mutex>
#include <new>

#include "base/error.hpp"
#include "runtime/background/fork.hpp"

namespace gex::capi {

namespace {

// Number of destroyed handles of one size that are kept before the first is reused.
constexpr std::size_t kKept = 4096;

struct HandleMemory {
  runtime::ForkSafeMutex mutex;
  std::map<std::size_t, std::deque<void*>> free;  // by size

  static HandleMemory& get() {
    static auto* memory = new HandleMemory;  // never destroyed: handles may outlive statics
    return *memory;
  }
};

const char* name_of(Tag tag) {
  switch (tag) {
    case Tag::graph:
      return "a graph";
    case Tag::program:
      return "a program";
    case Tag::tensor:
      return "memory of a tensor";
    case Tag::match:
      return "a match";
    case Tag::matcher:
      return "a matcher";
    case Tag::cancel:
      return "a cancel handle";
    case Tag::model:
      return "a model";
    case Tag::destroyed:
      break;
  }
  return nullptr;
}

}  // namespace

void check_tag(const void* handle, Tag wanted, const char* what) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(handle) % alignof(Tag) == 0;
  const Tag tag = aligned ? *static_cast<const volatile Tag*>(handle) : Tag{};
  if (tag == wanted) return;
  if (tag == Tag::destroyed)
    fail(ErrorCode::invalid_argument, what, " was already destroyed and can't be used");
  const char* instead = name_of(tag);
  if (instead != nullptr)
    fail(ErrorCode::invalid_argument, what, " is ", instead, ", not ", name_of(wanted));
  fail(ErrorCode::invalid_argument, what, " is not a handle of gex");
}

void* allocate_handle(std::size_t bytes) {
  HandleMemory& memory = HandleMemory::get();
  {
    const std::lock_guard lock(memory.mutex);
    std::deque<void*>& free = memory.free[bytes];
    if (free.size() > kKept) {
      void* oldest = free.front();
      free.pop_front();
      return oldest;
    }
  }
  return ::operator new(bytes);
}

void release_handle(void* handle, std::size_t bytes) noexcept {
  HandleMemory& memory = HandleMemory::get();
  const std::lock_guard lock(memory.mutex);
  try {
    memory.free[bytes].push_back(handle);
  } catch (const std::bad_alloc&) {
    // No memory to record it: the handle's memory leaks, which is safe.
  }
}

}  // namespace gex::capi
