#pragma once
// Emits a whole kernel as one function with the signature of program::KernelFn.

#include <string>

#include "backend/cpu/llvm/ir.hpp"
#include "backend/cpu/llvm/plan.hpp"

namespace gex::codegen {

class DebugLines;

// `kernel` may have sizes replaced by constants; `symbols` are the dims arguments of the generic
// one, in order, and `plan` was made for it. With `lines`, instructions refer to the kernel's text.
void emit_kernel(Ir& ir, const loop::Kernel& kernel, const std::vector<Dim>& symbols,
                 const KernelPlan& plan, const std::string& name, DebugLines* lines);

}  // namespace gex::codegen
