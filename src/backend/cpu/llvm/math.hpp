#pragma once
// Transcendental functions as IR, on scalars and vectors alike and with the same bits for both.
// f32: within 4 ulp of the true value over the whole range, denormals, infinities and NaN included.
// f64: libm, lane by lane.

#include "backend/cpu/llvm/ir.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen {

bool is_math(loop::Prim prim);
// `args` are f32 or f64 registers of one width.
llvm::Value* emit_math(Ir& ir, loop::Prim prim, llvm::ArrayRef<llvm::Value*> args);

// Building blocks that several files share. All use f32 unless named f64.
namespace math {
llvm::Value* exp(Ir& ir, llvm::Value* x);
llvm::Value* exp2(Ir& ir, llvm::Value* x);
llvm::Value* expm1(Ir& ir, llvm::Value* x);
llvm::Value* tanh(Ir& ir, llvm::Value* x);
llvm::Value* sigmoid(Ir& ir, llvm::Value* x);
llvm::Value* erf(Ir& ir, llvm::Value* x);
llvm::Value* log(Ir& ir, llvm::Value* x);
llvm::Value* log2(Ir& ir, llvm::Value* x);
llvm::Value* log10(Ir& ir, llvm::Value* x);
llvm::Value* log1p(Ir& ir, llvm::Value* x);
llvm::Value* sin_or_cos(Ir& ir, llvm::Value* x, bool cosine);

// Computed in f64: where f32 would lose the last bits and speed matters less.
llvm::Value* tan(Ir& ir, llvm::Value* x);
llvm::Value* sinh(Ir& ir, llvm::Value* x);
llvm::Value* cosh(Ir& ir, llvm::Value* x);
llvm::Value* asin(Ir& ir, llvm::Value* x);
llvm::Value* acos(Ir& ir, llvm::Value* x);
llvm::Value* atan(Ir& ir, llvm::Value* x);
llvm::Value* atan2(Ir& ir, llvm::Value* y, llvm::Value* x);
llvm::Value* pow(Ir& ir, llvm::Value* x, llvm::Value* y);

// f64 rounded to f32.
llvm::Value* to_f32(Ir& ir, llvm::Value* x);
// e^x to 22 bits, for x in [-104, 89] or NaN: for sums in which it is the small term.
llvm::Value* exp_roughly(Ir& ir, llvm::Value* x);
// x limited to [lo, hi]; NaN stays NaN.
llvm::Value* clamp(Ir& ir, llvm::Value* x, double lo, double hi);

// x = r + n*pi/2 with |r| <= pi/4 (slightly more at the boundaries), r in f64 and n in i64;
// accurate enough for |x| < kReducible. Larger arguments use libm, lane by lane.
inline constexpr double kReducible = 0x1p40;
struct QuarterTurns {
  llvm::Value* r;
  llvm::Value* n;
};
QuarterTurns quarter_turns(Ir& ir, llvm::Value* x_f64);
// `fast` where |x| < kReducible, libm's `function` elsewhere.
llvm::Value* unless_huge(Ir& ir, llvm::Value* x, llvm::Value* fast, const char* function);
}  // namespace math

}  // namespace gex::codegen
