#pragma once
// The calling convention of every CPU kernel, generated or hand-written: one function over a range
// of the kernel's flattened parallel grid. The runtime splits [0, grid) into ranges and gives each
// worker its own scratch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gex::program {

// buffers: base addresses in the order of the kernel's parameters. dims: the launch's evaluated
// Dims. scratch: `scratch_bytes` of 64-byte aligned memory owned by the calling worker (null if
// none is needed).
using KernelFn = void (*)(const void* context, void* const* buffers, const std::int64_t* dims,
                          std::int64_t begin, std::int64_t end, std::byte* scratch);

// A ready kernel. `owner` keeps the code (a JIT module, a shared library, a bound problem) alive.
struct Callable {
  KernelFn fn = nullptr;
  const void* context = nullptr;
  std::shared_ptr<const void> owner;

  explicit operator bool() const { return fn != nullptr; }
  void operator()(void* const* buffers, const std::int64_t* dims, std::int64_t begin,
                  std::int64_t end, std::byte* scratch) const {
    fn(context, buffers, dims, begin, end, scratch);
  }
};

}  // namespace gex::program
