#pragma once
// Memory and threads that belong to the caller.

#include <cstddef>
#include <memory>

#include "gex/gex.h"
#include "runtime/device.hpp"

namespace gex::capi {

// Where results in library memory live; shared by them and the program.
class Memory {
 public:
  explicit Memory(const gex_allocator* allocator);                 // null: the heap
  void* allocate(std::size_t bytes, std::size_t alignment) const;  // bad_alloc
  void release(void* memory, std::size_t bytes) const;
  bool is_callers() const { return allocator_.allocate != nullptr; }

 private:
  gex_allocator allocator_ = {};
};

// UserError if a struct is incomplete. Null if the options name no resources that the target uses:
// on a GPU the allocator is used only for results, and threads are an error.
std::shared_ptr<runtime::DeviceContext> device_of(const gex_compile_options& options,
                                                  const std::string& target,
                                                  const std::shared_ptr<const Memory>& memory);

}  // namespace gex::capi
