#pragma once
// CUDA: kernels as text (kernel_text.hpp) compiled by NVRTC, cubins kept in the Store, products by
// cuBLAS where they need nothing attached.

#include "backend/backend.hpp"

namespace gex::backend::cuda {

const Backend& backend();

}  // namespace gex::backend::cuda
