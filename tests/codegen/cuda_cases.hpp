#pragma once
// Kernels whose CUDA text is tested: on the host by emulation, by a CUDA compiler, and on a GPU.

#include <cstdint>

#include "backend/cuda/kernel_text.hpp"
#include "harness.hpp"

namespace gex::codegen {

namespace cuda = backend::cuda;

struct CudaCase {
  Case data;
  double tolerance_in_eps = 16;
};
std::vector<CudaCase> cuda_cases();

// The largest distance allowed for a buffer of this dtype.
double allowed(const CudaCase& c, DType dtype);

// The words of a launch: addresses, dims, blocks.
std::vector<std::int64_t> launch_words(const CudaCase& c, const std::vector<void*>& buffers);
std::int64_t evaluate(const CudaCase& c, Dim dim);

}  // namespace gex::codegen
