#pragma once
// CUDA C text of loop kernels and of problems. A kernel takes one argument, the words of its launch
// in the parameter block (runtime/recorder.hpp): addresses of its buffers, then the values of its
// dims. So one compiled function, and a captured graph that launches it, serve every size and
// address. Blocks loop over the work by gridDim: any number of blocks computes the same bits.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dim/dim.hpp"
#include "loop/kernel.hpp"
#include "problems/problem.hpp"

namespace gex::backend::cuda {

struct DeviceLimits {
  int multiprocessors = 132;
  std::int64_t shared_bytes = 227 * 1024;  // of one block, at most
  std::string architecture = "sm_90";
  // Kernels are launched with programmatic stream serialization: they wait for what kernels before
  // them write, and let the next one begin early.
  bool dependent_launch = false;
};

struct KernelText {
  std::string name;     // of the extern "C" function
  std::string source;   // whole translation unit, no includes
  int block = 0;        // threads in a block
  Dim grid;             // blocks
  Dim shared_bytes;     // dynamic shared memory of a block
  Dim workspace_bytes;  // global scratch; when not 0, its address is the launch's last buffer
};

// Loop kernels that a problem's kernel calls for each element.
struct AttachedKernels {
  // Elementwise over the dense grid of the result. Its buffer 0 is the finished sum; the others are
  // the launch's buffers after the operands.
  const loop::Kernel* epilogue = nullptr;
  int extra_buffers = 0;
  int epilogue_dims_begin = 0;  // of its symbols in the launch's dims

  // Computes an operand, elementwise over the operand's dense grid; stores to its last parameter.
  struct Prologue {
    const loop::Kernel* kernel = nullptr;
    int operand = 0;
    int first_buffer = 0, input_buffers = 0;  // in the launch's buffers
    int dims_begin = 0;
  };
  std::vector<Prologue> prologues;
  // No kernel writes the right operand of the product (weights): it may be read before the wait of
  // a dependent launch.
  bool constant_right = false;
};

// Both throw UserError(unsupported) that names what cannot be expressed. grid, shared_bytes and
// workspace_bytes are over the kernel's symbols, or over those of `dims`.
KernelText emit(const loop::Kernel& kernel, const DeviceLimits& limits = {});
KernelText emit(const problems::Problem& problem, const AttachedKernels& attached,
                std::span<const Dim> dims, const DeviceLimits& limits = {});

// The helpers that every source begins with.
std::string_view prelude();

}  // namespace gex::backend::cuda
