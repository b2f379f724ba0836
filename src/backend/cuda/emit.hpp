#pragma once
// CUDA C text from one loop kernel. The function takes one argument, the words of its launch in the
// parameter block (runtime/recorder.hpp): addresses, then the values of kernel.symbols(). So one
// compiled function, and a captured graph that launches it, serve every size and address. Loops
// over the grid step by gridDim: any number of blocks is right, surplus blocks exit at once.

#include <string>

#include "base/dim/dim.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen::cuda {

struct CudaKernel {
  std::string name;    // of the extern "C" function
  std::string source;  // whole translation unit, no includes
  int block = 0;       // threads in a block: a power of two
  Dim grid;            // blocks
  Dim shared_bytes;    // dynamic shared memory of a block: the kernel's locals
};

// Elementwise kernels run a point in each thread; kernels with long inner loops or locals run a
// point in each block, its loops spread over the threads and reductions joined in shared memory.
// What must run in order runs on one thread. UserError(unsupported) names what can't be spelled.
CudaKernel emit(const loop::Kernel& kernel);

// What every source begins with: integer and float helpers of the primitives.
std::string_view prelude();

}  // namespace gex::codegen::cuda
