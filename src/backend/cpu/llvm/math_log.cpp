// Logarithms in f32, and powers through f64.

#include "backend/cpu/llvm/math.hpp"

namespace gex::codegen::math {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

namespace {

constexpr double kLn2 = 0.69314718055994531;

// x = 2^e * (1 + f) with f in [sqrt(1/2) - 1, sqrt(2) - 1]; x finite and positive.
struct LogParts {
  Value* e;  // float
  Value* f;
};

LogParts split_exponent(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* denormal = b.CreateFCmpOLT(x, ir.real(x, 0x1p-126));
  x = b.CreateSelect(denormal, b.CreateFMul(x, ir.real(x, 0x1p24)), x);
  Value* bits = ir.bits_of(x);
  Value* shifted = b.CreateSub(bits, ir.integer(bits, 0x3f3504f3));  // sqrt(1/2)
  Value* exponent = b.CreateAShr(shifted, ir.integer(bits, 23));
  Value* mantissa = ir.real_of(b.CreateSub(bits, b.CreateShl(exponent, ir.integer(bits, 23))));
  Value* e = b.CreateSIToFP(exponent, x->getType());
  e = b.CreateSelect(denormal, b.CreateFSub(e, ir.real(x, 24)), e);
  return {e, b.CreateFSub(mantissa, ir.real(x, 1))};
}

// log(1 + f) - f
Value* log_tail(Ir& ir, Value* f) {
  Value* f2 = ir.b.CreateFMul(f, f);
  Value* q = ir.poly(f, {0.333333135, -0.250000089, 0.200021192, -0.166679963, 0.142195523,
                         -0.1240559, 0.118881628, -0.116756506, 0.0674663782});
  return ir.b.CreateFMul(f2, ir.fma(q, f, ir.real(f, -0.5)));
}

// Handles zero, negative numbers, infinity and NaN.
Value* with_ends(Ir& ir, Value* x, Value* inside) {
  auto& b = ir.b;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Value* r = b.CreateSelect(b.CreateFCmpOEQ(x, ir.real(x, kInf)), x, inside);
  r = b.CreateSelect(b.CreateFCmpOEQ(x, ir.real(x, 0)), ir.real(x, -kInf), r);
  Value* nan = ir.real(x, std::numeric_limits<double>::quiet_NaN());
  return b.CreateSelect(b.CreateFCmpULT(x, ir.real(x, 0)), nan, r);
}

// A positive finite f64 as mantissa * 2^exponent, the mantissa near 1 and its natural logarithm
// known to about 45 bits.
struct Logarithm {
  Value *of_mantissa, *exponent;
};

Logarithm logarithm_f64(Ir& ir, Value* d) {
  auto& b = ir.b;
  Value* bits = ir.bits_of(d);
  Value* shifted = b.CreateSub(bits, ir.integer(bits, 0x3fe6a09e667f3bcd));  // sqrt(1/2)
  Value* exponent = b.CreateAShr(shifted, ir.integer(bits, 52));
  Value* mantissa = ir.real_of(b.CreateSub(bits, b.CreateShl(exponent, ir.integer(bits, 52))));
  Value* f = b.CreateFSub(mantissa, ir.real(mantissa, 1));
  Value* q = ir.poly(
      f, {0.33333333333558074, -0.2499999999125026, 0.19999999925615911, -0.16666668054823777,
          0.14285722395575123, -0.12499923582498219, 0.11110696267657719, -0.10001875601294392,
          0.091020533405513943, -0.083140524461922147, 0.07533053901427858, -0.071478780241787332,
          0.077651967857689963, -0.074911042708882603, 0.036481257155035612});
  Value* tail = b.CreateFMul(b.CreateFMul(f, f), ir.fma(q, f, ir.real(f, -0.5)));
  return {b.CreateFAdd(f, tail), b.CreateSIToFP(exponent, d->getType())};
}

// log2(x) in f64 for positive finite f32 values.
Value* log2_f64(Ir& ir, Value* x) {
  Value* d = ir.b.CreateFPExt(x, Ir::like(x, ir.b.getDoubleTy()));
  const Logarithm log = logarithm_f64(ir, d);
  return ir.fma(log.of_mantissa, ir.real(d, 1 / kLn2), log.exponent);
}

// 2^y in f64 for |y| <= 1000.
Value* exp2_f64(Ir& ir, Value* y) {
  auto& b = ir.b;
  Value* n = ir.unary(Intrinsic::roundeven, y);
  Value* r = b.CreateFSub(y, n);
  Value* p = ir.poly(r, {0.69314718055987889, 0.24022650695707409, 0.05550410866871347,
                         0.0096181291856631979, 0.0013333557593408168, 0.00015403437265638624,
                         1.5253000435612688e-05, 1.3259193989741912e-06, 1.0147738649890399e-07});
  p = ir.fma(p, r, ir.real(r, 1));
  Value* i = ir.integer_of(n, b.getInt64Ty());
  return ir.real_of(b.CreateAdd(ir.bits_of(p), b.CreateShl(i, ir.integer(i, 52))));
}

Value* exp_f64(Ir& ir, Value* x) {
  Value* d = ir.b.CreateFPExt(x, Ir::like(x, ir.b.getDoubleTy()));
  return exp2_f64(ir, ir.b.CreateFMul(d, ir.real(d, 1 / kLn2)));
}

}  // namespace

Value* log(Ir& ir, Value* x) {
  LogParts s = split_exponent(ir, x);
  // Small parts first; e*ln2 in two parts keeps its error out of the sum.
  Value* low = ir.fma(s.e, ir.real(x, 1.42860682030941723e-6), log_tail(ir, s.f));
  Value* sum = ir.b.CreateFAdd(low, s.f);
  return with_ends(ir, x, ir.fma(s.e, ir.real(x, 0.693145751953125), sum));
}

Value* log2(Ir& ir, Value* x) {
  LogParts s = split_exponent(ir, x);
  Value* log = ir.b.CreateFAdd(log_tail(ir, s.f), s.f);
  return with_ends(ir, x, ir.fma(log, ir.real(x, 1 / kLn2), s.e));
}

Value* log10(Ir& ir, Value* x) {
  constexpr double kLog10Of2High = 0.301025390625, kLog10Of2Low = 4.6050389811952113e-6;
  LogParts s = split_exponent(ir, x);
  Value* log = ir.b.CreateFAdd(log_tail(ir, s.f), s.f);
  Value* low =
      ir.fma(log, ir.real(x, 0.43429448190325183), ir.b.CreateFMul(s.e, ir.real(x, kLog10Of2Low)));
  return with_ends(ir, x, ir.fma(s.e, ir.real(x, kLog10Of2High), low));
}

Value* log1p(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* one = ir.real(x, 1);
  Value* u = b.CreateFAdd(x, one);
  Value* lost = b.CreateFSub(x, b.CreateFSub(u, one));  // by rounding, at most half an ulp of u
  Value* bits = ir.bits_of(u);
  Value* shifted = b.CreateSub(bits, ir.integer(bits, 0x3f3504f3));  // sqrt(1/2)
  Value* exponent = b.CreateAShr(shifted, ir.integer(bits, 23));
  Value* moved = b.CreateShl(exponent, ir.integer(bits, 23));
  Value* mantissa = ir.real_of(b.CreateSub(bits, moved));
  // 2^-exponent. Nothing is lost of numbers that would need a smaller one.
  Value* scaled =
      b.CreateBinaryIntrinsic(Intrinsic::smin, moved, ir.integer(bits, std::int64_t{126} << 23));
  Value* unit = ir.real_of(b.CreateSub(ir.bits_of(one), scaled));
  Value* f = ir.fma(lost, unit, b.CreateFSub(mantissa, one));
  Value* e = b.CreateSIToFP(exponent, x->getType());
  Value* low = ir.fma(e, ir.real(x, 1.42860682030941723e-6), log_tail(ir, f));
  Value* sum = b.CreateFAdd(low, f);
  Value* result = with_ends(ir, u, ir.fma(e, ir.real(x, 0.693145751953125), sum));
  // x - x^2/2 differs from x by less than a quarter of an ulp here.
  Value* tiny = b.CreateFCmpOLT(ir.unary(Intrinsic::fabs, x), ir.real(x, 0x1p-25));
  return b.CreateSelect(tiny, x, result);
}

Value* sinh(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* d = b.CreateFPExt(x, Ir::like(x, b.getDoubleTy()));
  Value* z = b.CreateFMul(d, d);
  Value* p = ir.poly(z, {1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880});
  Value* small = ir.fma(b.CreateFMul(p, z), d, d);
  Value* e = exp_f64(ir, clamp(ir, x, -100, 100));
  Value* large = b.CreateFMul(b.CreateFSub(e, b.CreateFDiv(ir.real(e, 1), e)), ir.real(e, 0.5));
  Value* near = b.CreateFCmpOLT(ir.unary(Intrinsic::fabs, x), ir.real(x, 0.5));
  return b.CreateSelect(near, to_f32(ir, small), to_f32(ir, large));
}

Value* cosh(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* e = exp_f64(ir, clamp(ir, x, -100, 100));
  return to_f32(ir, b.CreateFMul(b.CreateFAdd(e, b.CreateFDiv(ir.real(e, 1), e)), ir.real(e, 0.5)));
}

Value* pow(Ir& ir, Value* x, Value* y) {
  auto& b = ir.b;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  llvm::Type* f64 = Ir::like(x, b.getDoubleTy());
  Value* zero = ir.real(x, 0);
  Value* one = ir.real(x, 1);
  Value* a = ir.unary(Intrinsic::fabs, x);
  Value* log = log2_f64(ir, a);
  // Zero and infinity need explicit logarithms.
  log = b.CreateSelect(b.CreateFCmpOEQ(a, zero), ir.real(log, -kInf), log);
  log = b.CreateSelect(b.CreateFCmpOEQ(a, ir.real(a, kInf)), ir.real(log, kInf), log);
  Value* product = b.CreateFMul(log, b.CreateFPExt(y, f64));
  Value* result = to_f32(ir, exp2_f64(ir, clamp(ir, product, -300, 300)));
  Value* nan = ir.real(x, std::numeric_limits<double>::quiet_NaN());
  // 0*inf in the product is one of the cases below; a NaN operand stays NaN.
  result = b.CreateSelect(b.CreateFCmpUNO(x, y), nan, result);
  // Negative x: only integer y are defined, and odd y keep the sign.
  Value* whole = b.CreateFCmpOEQ(ir.unary(Intrinsic::trunc, y), y);
  Value* half = b.CreateFMul(y, ir.real(y, 0.5));
  Value* odd = b.CreateAnd(whole, b.CreateFCmpONE(ir.unary(Intrinsic::trunc, half), half));
  Value* finite_negative =
      b.CreateAnd(b.CreateFCmpOLT(x, zero), b.CreateFCmpONE(x, ir.real(x, -kInf)));
  result = b.CreateSelect(b.CreateAnd(finite_negative, b.CreateNot(whole)), nan, result);
  result = b.CreateSelect(odd, ir.copysign(result, x), result);
  // (+-1)^(+-inf) is 1; x^0 and 1^y are 1 whatever the other is, NaN included.
  Value* unit = b.CreateAnd(b.CreateFCmpOEQ(a, one),
                            b.CreateFCmpOEQ(ir.unary(Intrinsic::fabs, y), ir.real(y, kInf)));
  Value* always = b.CreateOr(b.CreateFCmpOEQ(y, zero), b.CreateFCmpOEQ(x, one));
  return b.CreateSelect(b.CreateOr(unit, always), one, result);
}

}  // namespace gex::codegen::math
