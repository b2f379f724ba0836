#pragma once
// The CPU: loop kernels by LLVM (libgex_llvm, opened on first use) or the interpreter, problems by
// the hand-written kernels of kernels/.

#include "backend/backend.hpp"

namespace gex::backend::cpu {

const Backend& backend();

}  // namespace gex::backend::cpu
