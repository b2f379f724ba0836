#pragma once
// CUDA: kernels as text (kernel_text.hpp) compiled by NVRTC, cubins cached in the Store; matmuls
// without attached kernels may use cuBLAS.

#include "backend/backend.hpp"

namespace gex::backend::cuda {

const Backend& backend();

// From now on the process compiles for this architecture ("sm_90") instead of its device's: for
// files that run on other machines. UserError if gex does not support it.
void compile_for(const std::string& architecture);

// The CUDA text of each code of a Program; empty where the vendor's library computes it.
std::vector<std::string> texts_of(const program::Program& program);

}  // namespace gex::backend::cuda
