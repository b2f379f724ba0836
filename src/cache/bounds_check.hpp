#pragma once
// Proofs that a Program that came from a file touches nothing outside its buffers, for all sizes
// that its guards allow.

#include <functional>
#include <string>
#include <vector>

#include "loop/kernel.hpp"
#include "program/program.hpp"

namespace gex {

// A launch of a loop kernel: where it is in the program, and the kernel of its code.
struct KernelLaunch {
  const program::Launch* launch = nullptr;
  const loop::Kernel* kernel = nullptr;
};

// A sentence for each thing that may be wrong: sizes of buffers against their types and against
// what they share memory with, copies, fills, views that calls see, results.
std::vector<std::string> unproven_sizes(const program::Program& program);

// The same of what a launch does: as many buffers, sizes and grid points as the kernel has, enough
// scratch, stores only to buffers that it says it writes, and every access inside.
std::vector<std::string> unproven_launch(const program::Program& program,
                                         const KernelLaunch& launch);

// Both for a whole program. `kernel_of(code)`: null for codes that are no loop kernels.
std::vector<std::string> unproven_parts(
    const program::Program& program, const std::function<const loop::Kernel*(int code)>& kernel_of);

}  // namespace gex
