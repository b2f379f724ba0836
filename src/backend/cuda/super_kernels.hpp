#pragma once
// The persistent kernels of a Program (Launch::phase), as text.

#include <functional>
#include <vector>

#include "backend/cuda/kernel_text.hpp"
#include "program/program.hpp"

namespace gex::backend::cuda {

struct SuperKernel {
  const program::Launch* first = nullptr;
  KernelText text;
};

// `text_of`: the text of a code of the Program as a phase, with these buffers in exchanged or
// shared memory.
using PhaseText = std::function<KernelText(int code, const std::vector<bool>& exchanged)>;

std::vector<SuperKernel> super_kernels(const program::Program& program, const DeviceLimits& limits,
                                       const PhaseText& text_of);

}  // namespace gex::backend::cuda
