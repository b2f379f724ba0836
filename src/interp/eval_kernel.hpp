#pragma once
// The reference executor of one loop kernel over raw memory: the oracle for the code generators,
// and the fallback without one. f32 primitives are computed in double and rounded once, low floats
// in f32. Every index is checked: out of bounds is a UserError that names the access.

#include <cstdint>
#include <span>

#include "loop/kernel.hpp"
#include "program/kernel_abi.hpp"

namespace gex::interp {

// buffers: the kernel's parameters in order; dims: a value for each of kernel.symbols(), in order.
void eval_kernel(const loop::Kernel& kernel, std::span<void* const> buffers,
                 std::span<const std::int64_t> dims);

// The same with the ABI of compiled kernels, prepared once. Ranges of the grid may run on several
// threads unless kernel.ordered(). A failed bounds check is thrown as a UserError.
program::Callable interpreted(const loop::Kernel& kernel);

}  // namespace gex::interp
