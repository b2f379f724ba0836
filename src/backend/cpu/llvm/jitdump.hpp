#pragma once
// GEX_JITDUMP=FOLDER: a file jit-PID.dump there, from which `perf inject --jit` takes the names,
// the machine code and the lines of kernels.

#include <span>

#include "backend/cpu/llvm/code_names.hpp"

namespace gex::codegen {

// Does nothing if GEX_JITDUMP is not set. Thread-safe.
void write_jitdump(std::span<const NamedCode> functions);

}  // namespace gex::codegen
