// Circular functions in f32 and their inverses.

#include <cmath>

#include "backend/cpu/llvm/math.hpp"

namespace gex::codegen::math {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

namespace {

constexpr double kPi = 3.14159265358979323846;

Value* to_f64(Ir& ir, Value* x) { return ir.b.CreateFPExt(x, Ir::like(x, ir.b.getDoubleTy())); }

// atan(t) in f64 for 0 <= t <= 1, to about 36 bits.
Value* atan_unit(Ir& ir, Value* t) {
  Value* z = ir.b.CreateFMul(t, t);
  Value* q = ir.poly(z, {-0.33333333111114144, 0.19999984222242376, -0.14285320891749431,
                         0.11106143473476329, -0.090536297721927131, 0.075105117870796614,
                         -0.060569571907689794, 0.044179113940066496, -0.026547787390373834,
                         0.01177864675057244, -0.003326488349521566, 0.00044069328480172396});
  return ir.fma(ir.b.CreateFMul(q, z), t, t);
}

// asin(t) in f64 for |t| <= 1/2, to about 40 bits.
Value* asin_half(Ir& ir, Value* t) {
  Value* z = ir.b.CreateFMul(t, t);
  Value* q = ir.poly(
      z, {0.16666666626745172, 0.075000050480487884, 0.044640682902561658, 0.030426965805801766,
          0.021861537265467031, 0.020667964532040332, 0.0019216127400360889, 0.032973472325580469});
  return ir.fma(ir.b.CreateFMul(q, z), t, t);
}

// f(x), but x itself if it is zero: the sums above lose the sign of -0.
Value* zero_as_it_is(Ir& ir, Value* x, Value* fast) {
  return ir.b.CreateSelect(ir.b.CreateFCmpOEQ(x, ir.real(x, 0)), x, fast);
}

// asin(|d|) in two ways: directly, or where |d| > 1/2 through pi/2 - 2*asin(sqrt((1 - |d|)/2)).
struct ArcParts {
  Value* far;     // |d| > 1/2
  Value* direct;  // asin(|d|) for the near side
  Value* twice;   // 2*asin(sqrt((1 - |d|)/2)) for the far side
};
ArcParts arc_parts(Ir& ir, Value* d) {
  auto& b = ir.b;
  Value* a = ir.unary(Intrinsic::fabs, d);
  Value* far = b.CreateFCmpOGT(a, ir.real(a, 0.5));
  Value* half = b.CreateFMul(b.CreateFSub(ir.real(a, 1), a), ir.real(a, 0.5));
  Value* t = b.CreateSelect(far, ir.unary(Intrinsic::sqrt, half), a);
  Value* s = asin_half(ir, t);
  return {far, s, b.CreateFAdd(s, s)};
}

}  // namespace

QuarterTurns quarter_turns(Ir& ir, Value* x) {
  Value* n = ir.unary(Intrinsic::roundeven, ir.b.CreateFMul(x, ir.real(x, 2 / kPi)));
  Value* r = ir.fma(n, ir.real(x, -1.5707963267948966), x);
  r = ir.fma(n, ir.real(x, -6.123233995736766e-17), r);
  return {r, ir.integer_of(n, ir.b.getInt64Ty())};
}

Value* unless_huge(Ir& ir, Value* x, Value* fast, const char* function) {
  auto& b = ir.b;
  Value* huge = b.CreateFCmpOGE(ir.unary(Intrinsic::fabs, x), ir.real(x, kReducible));
  auto* function_block = b.GetInsertBlock();
  auto* slow = llvm::BasicBlock::Create(b.getContext(), "huge", function_block->getParent());
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function_block->getParent());
  b.CreateCondBr(ir.any(huge), slow, done);
  b.SetInsertPoint(slow);
  Value* exact = to_f32(ir, ir.call_each_lane(function, {to_f64(ir, x)}));
  Value* mixed = b.CreateSelect(huge, exact, fast);
  b.CreateBr(done);
  b.SetInsertPoint(done);
  auto* result = b.CreatePHI(x->getType(), 2);
  result->addIncoming(fast, function_block);
  result->addIncoming(mixed, slow);
  return result;
}

Value* sin_or_cos(Ir& ir, Value* x, bool cosine) {
  auto& b = ir.b;
  return ir.helper(
      cosine ? "gex.cos" : "gex.sin", {x}, x->getType(),
      [&](llvm::ArrayRef<Value*> args) -> Value* {
        Value* in = args[0];
        QuarterTurns q = quarter_turns(ir, to_f64(ir, in));
        Value* r = to_f32(ir, q.r);
        Value* z = b.CreateFMul(r, r);
        Value* sp = ir.poly(z, {-0.166666672, 0.00833332911, -0.000198392328, 2.71736667e-06});
        Value* s = ir.fma(b.CreateFMul(sp, z), r, r);
        Value* cp = ir.poly(z, {0.0416666456, -0.00138872513, 2.44256807e-05});
        Value* c = ir.fma(b.CreateFMul(cp, z), z, ir.fma(z, ir.real(z, -0.5), ir.real(z, 1)));
        Value* n = b.CreateTrunc(q.n, Ir::like(x, b.getInt32Ty()));
        if (cosine) n = b.CreateAdd(n, ir.integer(n, 1));
        Value* odd = b.CreateTrunc(n, Ir::like(x, b.getInt1Ty()));
        Value* value = b.CreateSelect(odd, c, s);
        Value* sign = b.CreateShl(b.CreateLShr(n, ir.integer(n, 1)), ir.integer(n, 31));
        value = ir.real_of(b.CreateXor(ir.bits_of(value), sign));
        if (!cosine) value = zero_as_it_is(ir, in, value);
        return unless_huge(ir, in, value, cosine ? "cos" : "sin");
      });
}

Value* tan(Ir& ir, Value* x) {
  auto& b = ir.b;
  return ir.helper("gex.tan", {x}, x->getType(), [&](llvm::ArrayRef<Value*> args) -> Value* {
    Value* in = args[0];
    QuarterTurns q = quarter_turns(ir, to_f64(ir, in));
    Value* r = q.r;
    Value* z = b.CreateFMul(r, r);
    Value* sp = ir.poly(z, {-0.16666666666626528, 0.0083333333243908563, -0.00019841263351526504,
                            2.7555259179642903e-06, -2.4754599052670964e-08});
    Value* s = ir.fma(b.CreateFMul(sp, z), r, r);
    Value* cp = ir.poly(z, {0.041666666666589067, -0.0013888888876662821, 2.4801580296287488e-05,
                            -2.7555449395355173e-07, 2.0640427065533354e-09});
    Value* c = ir.fma(b.CreateFMul(cp, z), z, ir.fma(z, ir.real(z, -0.5), ir.real(z, 1)));
    Value* odd = b.CreateTrunc(q.n, Ir::like(in, b.getInt1Ty()));
    Value* top = b.CreateSelect(odd, b.CreateFNeg(c), s);
    Value* bottom = b.CreateSelect(odd, s, c);
    Value* value = zero_as_it_is(ir, in, to_f32(ir, b.CreateFDiv(top, bottom)));
    return unless_huge(ir, in, value, "tan");
  });
}

Value* asin(Ir& ir, Value* x) {
  auto& b = ir.b;
  ArcParts p = arc_parts(ir, to_f64(ir, x));
  Value* far = b.CreateFSub(ir.real(p.twice, kPi / 2), p.twice);
  Value* r = to_f32(ir, b.CreateSelect(p.far, far, p.direct));
  return ir.copysign(r, x);
}

Value* acos(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* d = to_f64(ir, x);
  ArcParts p = arc_parts(ir, d);
  Value* negative = b.CreateFCmpOLT(d, ir.real(d, 0));
  Value* far = b.CreateSelect(negative, b.CreateFSub(ir.real(d, kPi), p.twice), p.twice);
  Value* near = b.CreateFSub(ir.real(d, kPi / 2), ir.copysign(p.direct, d));
  return to_f32(ir, b.CreateSelect(p.far, far, near));
}

Value* atan(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* a = ir.unary(Intrinsic::fabs, to_f64(ir, x));
  Value* one = ir.real(a, 1);
  Value* steep = b.CreateFCmpOGT(a, one);
  Value* r = atan_unit(ir, b.CreateSelect(steep, b.CreateFDiv(one, a), a));
  r = b.CreateSelect(steep, b.CreateFSub(ir.real(a, kPi / 2), r), r);
  return ir.copysign(to_f32(ir, r), x);
}

Value* atan2(Ir& ir, Value* y, Value* x) {
  auto& b = ir.b;
  Value* dy = to_f64(ir, y);
  Value* dx = to_f64(ir, x);
  Value* ay = ir.unary(Intrinsic::fabs, dy);
  Value* ax = ir.unary(Intrinsic::fabs, dx);
  Value* steep = b.CreateFCmpOGT(ay, ax);
  Value* low = b.CreateSelect(steep, ax, ay);
  Value* high = b.CreateSelect(steep, ay, ax);
  Value* t = b.CreateFDiv(low, high);
  // 0/0 is the angle 0 and inf/inf that of the diagonal.
  t = b.CreateSelect(b.CreateFCmpOEQ(low, high), ir.real(t, 1), t);
  t = b.CreateSelect(b.CreateFCmpOEQ(high, ir.real(t, 0)), ir.real(t, 0), t);
  Value* r = atan_unit(ir, t);
  r = b.CreateSelect(steep, b.CreateFSub(ir.real(r, kPi / 2), r), r);
  Value* bits = ir.bits_of(dx);
  Value* left = b.CreateICmpSLT(bits, ir.zero(bits->getType()));
  r = b.CreateSelect(left, b.CreateFSub(ir.real(r, kPi), r), r);
  r = b.CreateSelect(b.CreateFCmpUNO(x, y), ir.real(r, std::numeric_limits<double>::quiet_NaN()),
                     r);
  return ir.copysign(to_f32(ir, r), y);
}

}  // namespace gex::codegen::math
