#pragma once
// Integer and bool primitives: everything wraps, nothing traps.

#include "backend/cpu/llvm/ir.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen {

llvm::Value* emit_integer_prim(Ir& ir, loop::Prim prim, DType dtype,
                               llvm::ArrayRef<llvm::Value*> args);

}  // namespace gex::codegen
