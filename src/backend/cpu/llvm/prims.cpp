#include "backend/cpu/llvm/prims.hpp"

#include "backend/cpu/llvm/integers.hpp"
#include "backend/cpu/llvm/math.hpp"
#include "base/error.hpp"
#include "loop/scalar.hpp"

namespace gex::codegen {

using llvm::Value;
using loop::Prim;
namespace Intrinsic = llvm::Intrinsic;

namespace {

using Args = llvm::ArrayRef<Value*>;

Value* is_nan(Ir& ir, Value* x) { return ir.b.CreateFCmpUNO(x, x); }

// NaN if either is NaN; the first of equal values.
Value* real_extreme(Ir& ir, Value* x, Value* y, bool larger) {
  Value* beats = larger ? ir.b.CreateFCmpOGT(y, x) : ir.b.CreateFCmpOLT(y, x);
  return ir.b.CreateSelect(is_nan(ir, y), y, ir.b.CreateSelect(beats, y, x));
}

// f32: the quotient is rounded towards zero in f64. A quotient below 2^29 never rounds up to an
// integer, since it is at least 2^-24 below it, and its product with y is exact. Lanes with larger
// quotients, infinities and NaN call libm.
Value* narrow_fmod(Ir& ir, Value* x, Value* y) {
  auto& b = ir.b;
  llvm::IRBuilderBase::FastMathFlagGuard exact(b);
  b.clearFastMathFlags();
  llvm::Type* f64 = Ir::like(x, b.getDoubleTy());
  Value* dividend = b.CreateFPExt(x, f64);
  Value* divisor = b.CreateFPExt(y, f64);
  Value* ratio = b.CreateFDiv(dividend, divisor);
  Value* quotient = ir.unary(Intrinsic::trunc, ratio);
  Value* rest = ir.fma(b.CreateFNeg(quotient), divisor, dividend);
  Value* fast = ir.copysign(b.CreateFPTrunc(rest, x->getType()), x);
  Value* small = b.CreateFCmpOLT(ir.unary(Intrinsic::fabs, ratio), ir.real(ratio, 0x1p29));
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Value* finite = b.CreateFCmpOLT(ir.unary(Intrinsic::fabs, y), ir.real(y, kInf));
  Value* special = b.CreateNot(b.CreateAnd(small, finite));
  auto* before = b.GetInsertBlock();
  auto* slow = llvm::BasicBlock::Create(b.getContext(), "special", before->getParent());
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", before->getParent());
  b.CreateCondBr(ir.any(special), slow, done);
  b.SetInsertPoint(slow);
  Value* mixed = b.CreateSelect(special, ir.call_each_lane("fmodf", {x, y}), fast);
  b.CreateBr(done);
  b.SetInsertPoint(done);
  auto* result = b.CreatePHI(x->getType(), 2);
  result->addIncoming(fast, before);
  result->addIncoming(mixed, slow);
  return result;
}

Value* real_fmod(Ir& ir, Value* x, Value* y) {
  if (x->getType()->getScalarType()->isDoubleTy()) return ir.call_each_lane("fmod", {x, y});
  return ir.helper("gex.fmod", {x, y}, x->getType(),
                   [&](Args in) { return narrow_fmod(ir, in[0], in[1]); });
}

// The remainder is nonzero and its sign differs from the divisor's.
Value* real_has_wrong_sign(Ir& ir, Value* m, Value* y) {
  Value* zero = ir.real(m, 0);
  Value* differs = ir.b.CreateXor(ir.b.CreateFCmpOLT(y, zero), ir.b.CreateFCmpOLT(m, zero));
  return ir.b.CreateAnd(ir.b.CreateFCmpUNE(m, zero), differs);
}

Value* real_mod(Ir& ir, Value* x, Value* y) {
  Value* m = real_fmod(ir, x, y);
  return ir.b.CreateSelect(real_has_wrong_sign(ir, m, y), ir.b.CreateFAdd(m, y), m);
}

Value* real_floordiv(Ir& ir, Value* x, Value* y) {
  auto& b = ir.b;
  Value* zero = ir.real(x, 0);
  Value* one = ir.real(x, 1);
  Value* m = real_fmod(ir, x, y);
  Value* q = b.CreateFDiv(b.CreateFSub(x, m), y);
  q = b.CreateSelect(real_has_wrong_sign(ir, m, y), b.CreateFSub(q, one), q);
  Value* f = ir.unary(Intrinsic::floor, q);
  Value* high = b.CreateFCmpOGT(b.CreateFSub(q, f), ir.real(x, 0.5));
  Value* whole = b.CreateSelect(high, b.CreateFAdd(f, one), f);
  Value* ratio = b.CreateFDiv(x, y);
  whole = b.CreateSelect(b.CreateFCmpOEQ(q, zero), ir.copysign(zero, ratio), whole);
  return b.CreateSelect(b.CreateFCmpOEQ(y, zero), ratio, whole);
}

Value* real_sign(Ir& ir, Value* x) {
  auto& b = ir.b;
  Value* zero = ir.real(x, 0);
  Value* below = b.CreateSelect(b.CreateFCmpOLT(x, zero), ir.real(x, -1), zero);
  Value* r = b.CreateSelect(b.CreateFCmpOGT(x, zero), ir.real(x, 1), below);
  return b.CreateSelect(is_nan(ir, x), x, r);
}

Value* emit_real(Ir& ir, Prim prim, Args a) {
  auto& b = ir.b;
  switch (prim) {
    case Prim::add:
      return b.CreateFAdd(a[0], a[1]);
    case Prim::sub:
      return b.CreateFSub(a[0], a[1]);
    case Prim::mul:
      return b.CreateFMul(a[0], a[1]);
    case Prim::div:
      return b.CreateFDiv(a[0], a[1]);
    case Prim::floordiv:
      return real_floordiv(ir, a[0], a[1]);
    case Prim::mod:
      return real_mod(ir, a[0], a[1]);
    case Prim::truncdiv:
      return ir.unary(Intrinsic::trunc, b.CreateFDiv(a[0], a[1]));
    case Prim::fmod:
      return real_fmod(ir, a[0], a[1]);
    case Prim::min:
      return real_extreme(ir, a[0], a[1], false);
    case Prim::max:
      return real_extreme(ir, a[0], a[1], true);
    case Prim::neg:
      return b.CreateFNeg(a[0]);
    case Prim::abs:
      return ir.unary(Intrinsic::fabs, a[0]);
    case Prim::sign:
      return real_sign(ir, a[0]);
    case Prim::sqrt:
      return ir.unary(Intrinsic::sqrt, a[0]);
    case Prim::rsqrt:
      return b.CreateFDiv(ir.real(a[0], 1), ir.unary(Intrinsic::sqrt, a[0]));
    case Prim::reciprocal:
      return b.CreateFDiv(ir.real(a[0], 1), a[0]);
    case Prim::floor:
      return ir.unary(Intrinsic::floor, a[0]);
    case Prim::ceil:
      return ir.unary(Intrinsic::ceil, a[0]);
    case Prim::round:
      return ir.unary(Intrinsic::roundeven, a[0]);
    case Prim::trunc:
      return ir.unary(Intrinsic::trunc, a[0]);
    case Prim::eq:
      return b.CreateFCmpOEQ(a[0], a[1]);
    case Prim::ne:
      return b.CreateFCmpUNE(a[0], a[1]);
    case Prim::lt:
      return b.CreateFCmpOLT(a[0], a[1]);
    case Prim::le:
      return b.CreateFCmpOLE(a[0], a[1]);
    case Prim::gt:
      return b.CreateFCmpOGT(a[0], a[1]);
    case Prim::ge:
      return b.CreateFCmpOGE(a[0], a[1]);
    case Prim::is_nan:
      return is_nan(ir, a[0]);
    case Prim::is_inf:
      return b.CreateFCmpOEQ(ir.unary(Intrinsic::fabs, a[0]),
                             ir.real(a[0], std::numeric_limits<double>::infinity()));
    default:
      return emit_math(ir, prim, a);
  }
}

// f32 bits whose upper half is the nearest bf16, ties to even.
Value* rounded_bits(Ir& ir, Value* bits) {
  auto& b = ir.b;
  Value* odd = b.CreateAnd(b.CreateLShr(bits, ir.integer(bits, 16)), ir.integer(bits, 1));
  return b.CreateAdd(b.CreateAdd(bits, odd), ir.integer(bits, 0x7fff));
}

bool never_rounds(Prim prim) {
  switch (prim) {
    case Prim::min:
    case Prim::max:
    case Prim::neg:
    case Prim::abs:
    case Prim::sign:
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
    case Prim::fmod:
      return true;
    default:
      return false;
  }
}

// Rounds the result of a primitive on bf16 values. Its NaNs are quiet and end in zeros, so they
// survive the rounding.
Value* round_result(Ir& ir, Value* value, DType dtype) {
  if (dtype != DType::bf16) return round_to(ir, value, dtype);
  Value* bits = ir.bits_of(value);
  return ir.real_of(ir.b.CreateAnd(rounded_bits(ir, bits), ir.integer(bits, 0xffff0000)));
}

}  // namespace

Value* emit_prim(Ir& ir, Prim prim, DType operand, Args args) {
  if (prim == Prim::select) return ir.b.CreateSelect(args[0], args[1], args[2]);
  if (!is_float(operand)) return emit_integer_prim(ir, prim, operand, args);
  Value* result = emit_real(ir, prim, args);
  if (!result->getType()->isFPOrFPVectorTy() || never_rounds(prim)) return result;
  return round_result(ir, result, operand);
}

Value* round_to(Ir& ir, Value* value, DType dtype) {
  if (dtype == DType::f16) return from_memory(ir, to_memory(ir, value, dtype), dtype);
  if (dtype != DType::bf16) return value;
  auto& b = ir.b;
  Value* bits = ir.bits_of(value);
  Value* quiet = b.CreateOr(bits, ir.integer(bits, 0x400000));
  Value* kept = b.CreateSelect(is_nan(ir, value), quiet, rounded_bits(ir, bits));
  return ir.real_of(b.CreateAnd(kept, ir.integer(bits, 0xffff0000)));
}

Value* from_memory(Ir& ir, Value* raw, DType dtype) {
  auto& b = ir.b;
  switch (dtype) {
    case DType::f16:
      return b.CreateFPExt(b.CreateBitCast(raw, Ir::like(raw, b.getHalfTy())),
                           Ir::like(raw, b.getFloatTy()));
    case DType::bf16: {
      Value* wide = b.CreateZExt(raw, Ir::like(raw, b.getInt32Ty()));
      return ir.real_of(b.CreateShl(wide, ir.integer(wide, 16)));
    }
    case DType::boolean:
      return b.CreateICmpNE(raw, ir.zero(raw->getType()));
    default:
      return raw;
  }
}

Value* to_memory(Ir& ir, Value* value, DType dtype) {
  auto& b = ir.b;
  switch (dtype) {
    case DType::f16:
      return b.CreateBitCast(b.CreateFPTrunc(value, Ir::like(value, b.getHalfTy())),
                             Ir::like(value, b.getInt16Ty()));
    case DType::bf16: {
      Value* bits = ir.bits_of(value);
      return b.CreateTrunc(b.CreateLShr(bits, ir.integer(bits, 16)),
                           Ir::like(value, b.getInt16Ty()));
    }
    case DType::boolean:
      return b.CreateZExt(value, Ir::like(value, b.getInt8Ty()));
    default:
      return value;
  }
}

Value* emit_cast(Ir& ir, Value* value, DType from, DType to) {
  auto& b = ir.b;
  llvm::Type* type = Ir::like(value, ir.register_type(to));
  if (to == DType::boolean) {
    if (is_float(from)) return b.CreateFCmpUNE(value, ir.real(value, 0));
    return from == to ? value : b.CreateICmpNE(value, ir.zero(value->getType()));
  }
  if (is_float(from) && is_float(to)) return round_to(ir, b.CreateFPCast(value, type), to);
  if (is_float(from)) {
    // Values out of range of i32 (or i64) become its smallest value, as in hardware; the rest
    // wraps.
    llvm::Type* first = loop::converts_through_i32(to) ? b.getInt32Ty() : b.getInt64Ty();
    return b.CreateTrunc(ir.integer_of(value, first), type);
  }
  bool is_unsigned = from == DType::u8 || from == DType::boolean;
  if (is_float(to)) {
    Value* real = is_unsigned ? b.CreateUIToFP(value, type) : b.CreateSIToFP(value, type);
    return round_to(ir, real, to);
  }
  return is_unsigned ? b.CreateZExtOrTrunc(value, type) : b.CreateSExtOrTrunc(value, type);
}

Value* emit_constant(Ir& ir, DType dtype, double real, std::int64_t integer) {
  llvm::Type* type = ir.register_type(dtype);
  if (is_float(dtype)) return round_to(ir, llvm::ConstantFP::get(type, real), dtype);
  if (dtype == DType::boolean) return ir.b.getInt1(real != 0);
  return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(integer), true);
}

}  // namespace gex::codegen
