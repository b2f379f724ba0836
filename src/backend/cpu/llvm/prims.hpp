#pragma once
// Scalar primitives, conversions and rounding on registers (ir.hpp says how a dtype is held).
// Results are rounded to the dtype: a low float is always an f32 that the dtype can represent.

#include <cstdint>

#include "backend/cpu/llvm/ir.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen {

// `operand` is the dtype of the (last) operand; all `args` have the same width.
llvm::Value* emit_prim(Ir& ir, loop::Prim prim, DType operand, llvm::ArrayRef<llvm::Value*> args);
llvm::Value* emit_cast(Ir& ir, llvm::Value* value, DType from, DType to);
llvm::Value* emit_constant(Ir& ir, DType dtype, double real, std::int64_t integer);

// f32 -> the nearest value of a low float (ties to even), still as f32. Other dtypes: unchanged.
llvm::Value* round_to(Ir& ir, llvm::Value* value, DType dtype);
// Between a register and the form in memory; both exact.
llvm::Value* from_memory(Ir& ir, llvm::Value* raw, DType dtype);
llvm::Value* to_memory(Ir& ir, llvm::Value* value, DType dtype);

// Floor division and remainder of i64 with any signs; a zero divisor does not trap.
llvm::Value* floor_divide(Ir& ir, llvm::Value* a, llvm::Value* b);
llvm::Value* floor_remainder(Ir& ir, llvm::Value* a, llvm::Value* b);

}  // namespace gex::codegen
