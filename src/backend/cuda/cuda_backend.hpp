#pragma once
// CUDA: kernels as text (kernel_text.hpp) compiled by NVRTC, cubins cached in the Store; matmuls
// without attached kernels may use cuBLAS.

#include "backend/backend.hpp"

namespace gex::backend::cuda {

const Backend& backend();

}  // namespace gex::backend::cuda
