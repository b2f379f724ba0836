// e^x and what is built on it, in f32. The polynomials are minimax fits on |r| <= ln(2)/2.

#include <llvm/IR/IntrinsicsX86.h>

#include "backend/cpu/llvm/math.hpp"

namespace gex::codegen::math {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2High = 0.693145751953125;  // 15 bits: n*kLn2High is exact for |n| < 2^9
constexpr double kLn2Low = 1.42860682030941723e-6;

// x = n*ln2 + r.
struct Split {
  Value* n;
  Value* r;
};

Split split_ln2(Ir& ir, Value* x) {
  Value* n = ir.unary(Intrinsic::roundeven, ir.b.CreateFMul(x, ir.real(x, kLog2E)));
  Value* r = ir.fma(n, ir.real(x, -kLn2High), x);
  return {n, ir.fma(n, ir.real(x, -kLn2Low), r)};
}

// (e^r - 1 - r) / r^2
Value* exp_tail(Ir& ir, Value* r) {
  return ir.poly(r, {0.49999994, 0.166665152, 0.041668456, 0.00836941879, 0.00138131483});
}

// y * 2^n, rounded once, for |n| <= 252 and y near 1.
Value* scale(Ir& ir, Value* y, Value* n) {
  if (ir.target.avx512 && Ir::width(y) == 16) {
    Value* all = llvm::ConstantInt::get(ir.b.getInt16Ty(), 0xffff);
    Value* rounding = ir.b.getInt32(4);  // the current direction
    return ir.b.CreateIntrinsic(Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                {y, n, ir.zero(y->getType()), all, rounding});
  }
  // Two halves: the first product is exact, so denormal results round once.
  Value* i = ir.integer_of(n, ir.b.getInt32Ty());
  Value* half = ir.b.CreateAShr(i, ir.integer(i, 1));
  auto power = [&](Value* e) {
    Value* biased = ir.b.CreateAdd(e, ir.integer(e, 127));
    return ir.real_of(ir.b.CreateShl(biased, ir.integer(e, 23)));
  };
  y = ir.b.CreateFMul(y, power(half));
  return ir.b.CreateFMul(y, power(ir.b.CreateSub(i, half)));
}

// 2^n as a number, n in [-126, 127].
Value* power_of_two(Ir& ir, Value* n) {
  Value* i = ir.integer_of(n, ir.b.getInt32Ty());
  Value* biased = ir.b.CreateAdd(i, ir.integer(i, 127));
  return ir.real_of(ir.b.CreateShl(biased, ir.integer(i, 23)));
}

}  // namespace

Value* to_f32(Ir& ir, Value* x) { return ir.b.CreateFPTrunc(x, Ir::like(x, ir.b.getFloatTy())); }

Value* clamp(Ir& ir, Value* x, double lo, double hi) {
  Value* top = ir.real(x, hi);
  Value* bottom = ir.real(x, lo);
  x = ir.b.CreateSelect(ir.b.CreateFCmpOLT(top, x), top, x);
  return ir.b.CreateSelect(ir.b.CreateFCmpOGT(bottom, x), bottom, x);
}

namespace {

// e^x for x in [-104, 89] or NaN.
Value* exp_in_range(Ir& ir, Value* x) {
  Split s = split_ln2(ir, x);
  Value* r2 = ir.b.CreateFMul(s.r, s.r);
  Value* p = ir.fma(r2, exp_tail(ir, s.r), s.r);
  return scale(ir, ir.b.CreateFAdd(p, ir.real(x, 1)), s.n);
}

}  // namespace

Value* exp_roughly(Ir& ir, Value* x) {
  Split s = split_ln2(ir, x);
  Value* q = ir.poly(s.r, {0.499992013, 0.166671336, 0.0418944992, 0.00831204932});
  Value* p = ir.fma(ir.b.CreateFMul(s.r, s.r), q, s.r);
  return scale(ir, ir.b.CreateFAdd(p, ir.real(x, 1)), s.n);
}

Value* exp(Ir& ir, Value* x) { return exp_in_range(ir, clamp(ir, x, -104, 89)); }

Value* exp2(Ir& ir, Value* x) {
  x = clamp(ir, x, -151, 129);
  Value* n = ir.unary(Intrinsic::roundeven, x);
  Value* r = ir.b.CreateFSub(x, n);
  Value* p = ir.poly(
      r, {0.693147182, 0.240226477, 0.0555032939, 0.00961844996, 0.00134001696, 0.000153523113});
  return scale(ir, ir.fma(p, r, ir.real(x, 1)), n);
}

Value* expm1(Ir& ir, Value* x) {
  Split s = split_ln2(ir, clamp(ir, x, -18, 89));
  Value* p = ir.fma(ir.b.CreateFMul(s.r, s.r), exp_tail(ir, s.r), s.r);
  // 2^n*(1 + p) - 1, with 2^(n-1) so that n = 128 does not overflow before the result does.
  Value* t = power_of_two(ir, ir.b.CreateFSub(s.n, ir.real(x, 1)));
  Value* half = ir.fma(p, t, ir.b.CreateFSub(t, ir.real(x, 0.5)));
  Value* result = ir.b.CreateFAdd(half, half);
  // Where halves would be denormal the result is x itself.
  Value* tiny = ir.b.CreateFCmpOLT(ir.unary(Intrinsic::fabs, x), ir.real(x, 0x1p-26));
  return ir.b.CreateSelect(tiny, x, result);
}

Value* tanh(Ir& ir, Value* x) {
  // t = e^(2|x|) - 1, tanh = t / (t + 2): no cancellation anywhere. 1 from 9.02 on.
  Value* a = ir.unary(Intrinsic::fabs, x);
  Value* limited = ir.b.CreateSelect(ir.b.CreateFCmpOLT(ir.real(x, 10), a), ir.real(x, 10), a);
  Split s = split_ln2(ir, ir.b.CreateFAdd(limited, limited));
  Value* p = ir.fma(ir.b.CreateFMul(s.r, s.r), exp_tail(ir, s.r), s.r);
  Value* power = power_of_two(ir, s.n);
  Value* t = ir.fma(p, power, ir.b.CreateFSub(power, ir.real(x, 1)));
  Value* ratio = ir.b.CreateFDiv(t, ir.b.CreateFAdd(t, ir.real(x, 2)));
  return ir.copysign(ratio, x);
}

Value* sigmoid(Ir& ir, Value* x) {
  // e^-|x| never overflows, and for negative x keeps the denormal results.
  Value* one = ir.real(x, 1);
  Value* minus = ir.b.CreateFNeg(ir.unary(Intrinsic::fabs, x));
  Value* least = ir.real(x, -104);
  Value* e = exp_in_range(ir, ir.b.CreateSelect(ir.b.CreateFCmpOGT(least, minus), least, minus));
  Value* negative = ir.b.CreateFCmpOLT(x, ir.real(x, 0));
  return ir.b.CreateFDiv(ir.b.CreateSelect(negative, e, one), ir.b.CreateFAdd(e, one));
}

}  // namespace gex::codegen::math
