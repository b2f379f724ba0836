#pragma once
// Tagged handles: a destroyed handle or one of another kind is an error and never dereferenced. The
// memory of handles is kept for a long time before it is reused, and never returned to the system,
// so that reading the tag of a destroyed handle is safe.

#include <cstddef>
#include <cstdint>

namespace gex::capi {

enum class Tag : std::uint64_t {
  graph = 0x6765782067726168,
  program = 0x676578207072676d,
  tensor = 0x67657820746e7372,
  match = 0x676578206d617463,
  matcher = 0x6765782066696e64,
  cancel = 0x6765782063616e63,
  model = 0x676578206d6f646c,
  destroyed = 0x6765782064656164,
};

// UserError(invalid_argument) that names the actual kind of the handle.
void check_tag(const void* handle, Tag wanted, const char* what);

void* allocate_handle(std::size_t bytes);
void release_handle(void* memory, std::size_t bytes) noexcept;

// The first base class of every object behind a handle.
template <Tag tag>
class Tagged {
 public:
  static constexpr Tag kTag = tag;
  static void* operator new(std::size_t bytes) { return allocate_handle(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    release_handle(memory, bytes);
  }

 protected:
  Tagged() = default;
  // Volatile: the compiler may otherwise drop writes to a destroyed object.
  ~Tagged() { *static_cast<volatile Tag*>(&tag_) = Tag::destroyed; }
  Tagged(const Tagged&) = default;
  Tagged& operator=(const Tagged&) = default;

 private:
  Tag tag_ = tag;
};

}  // namespace gex::capi
