#pragma once
// The CPU: loop kernels are compiled by LLVM (libgex_llvm, opened on first use) or interpreted,
// problems run the hand-written kernels of kernels/.

#include "backend/backend.hpp"

namespace gex::backend::cpu {

const Backend& backend();

}  // namespace gex::backend::cpu
