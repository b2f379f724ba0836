#pragma once
// CUDA C text of the kernels behind copy and fill steps: gex_copy and gex_fill. `with_conditions`:
// and, if NVRTC is recent enough, gex_set_condition, for if and while steps.

#include <string>

namespace gex::backend::cuda {

std::string step_kernels(bool with_conditions);

}  // namespace gex::backend::cuda
