#pragma once
// CUDA C text of the kernels behind copy and fill steps: gex_copy and gex_fill.

namespace gex::backend::cuda {

extern const char* const kStepKernels;

}  // namespace gex::backend::cuda
