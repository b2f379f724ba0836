#include "backend/cpu/llvm/integers.hpp"

#include <array>

#include "backend/cpu/llvm/prims.hpp"
#include "base/error.hpp"

namespace gex::codegen {

using llvm::Value;
using loop::Prim;
using Args = llvm::ArrayRef<Value*>;

namespace {

struct Division {
  Value* quotient;
  Value* remainder;
};

// Vectors have no integer division. Floats that represent both numbers exactly give the same
// quotient: the rounded quotient never reaches the next integer.
Value* quotient(Ir& ir, Value* x, Value* y, bool is_unsigned) {
  auto& b = ir.b;
  unsigned bits = x->getType()->getScalarSizeInBits();
  if (Ir::width(x) == 1) return is_unsigned ? b.CreateUDiv(x, y) : b.CreateSDiv(x, y);
  if (bits == 64) {
    std::string name = is_unsigned ? "gex.udiv64" : "gex.sdiv64";
    return ir.helper(name, {x, y}, x->getType(), [&](Args in) {
      return is_unsigned ? b.CreateUDiv(in[0], in[1]) : b.CreateSDiv(in[0], in[1]);
    });
  }
  llvm::IRBuilderBase::FastMathFlagGuard exact(b);
  b.clearFastMathFlags();
  llvm::Type* real = Ir::like(x, bits == 32 ? b.getDoubleTy() : b.getFloatTy());
  auto convert = [&](Value* v) {
    return is_unsigned ? b.CreateUIToFP(v, real) : b.CreateSIToFP(v, real);
  };
  Value* ratio = b.CreateFDiv(convert(x), convert(y));
  return is_unsigned ? b.CreateFPToUI(ratio, x->getType()) : b.CreateFPToSI(ratio, x->getType());
}

// Towards zero. A zero divisor gives 0 and 0; -1 gives the wrapped negative.
Division divide(Ir& ir, Value* x, Value* y, bool is_unsigned) {
  auto& b = ir.b;
  Value* zero = ir.zero(x->getType());
  Value* one = ir.integer(x, 1);
  Value* none = b.CreateICmpEQ(y, zero);
  if (is_unsigned) {
    Value* safe = b.CreateSelect(none, one, y);
    Value* q = quotient(ir, x, safe, true);
    Value* r = b.CreateSub(x, b.CreateMul(q, safe));
    return {b.CreateSelect(none, zero, q), b.CreateSelect(none, zero, r)};
  }
  Value* minus = b.CreateICmpEQ(y, ir.integer(y, -1));
  Value* safe = b.CreateSelect(b.CreateOr(none, minus), one, y);
  Value* q = quotient(ir, x, safe, false);
  Value* r = b.CreateSub(x, b.CreateMul(q, safe));  // 0 for the replaced divisors
  q = b.CreateSelect(minus, b.CreateNeg(x), q);
  return {b.CreateSelect(none, zero, q), r};
}

Value* wrong_sign(Ir& ir, Value* r, Value* y) {
  Value* zero = ir.zero(r->getType());
  Value* differs = ir.b.CreateICmpSLT(ir.b.CreateXor(r, y), zero);
  return ir.b.CreateAnd(ir.b.CreateICmpNE(r, zero), differs);
}

Value* floordiv(Ir& ir, Value* x, Value* y, bool is_unsigned) {
  Division d = divide(ir, x, y, is_unsigned);
  if (is_unsigned) return d.quotient;
  return ir.b.CreateAdd(d.quotient, ir.b.CreateSExt(wrong_sign(ir, d.remainder, y), x->getType()));
}

Value* mod(Ir& ir, Value* x, Value* y, bool is_unsigned) {
  Division d = divide(ir, x, y, is_unsigned);
  if (is_unsigned) return d.remainder;
  Value* shifted = ir.b.CreateAdd(d.remainder, y);
  return ir.b.CreateSelect(wrong_sign(ir, d.remainder, y), shifted, d.remainder);
}

// By squaring, in a separate function with a loop: the exponent's bits are data.
Value* power(Ir& ir, Value* x, Value* y, bool is_unsigned) {
  auto& b = ir.b;
  std::string name =
      "gex.ipow" + std::to_string(x->getType()->getScalarSizeInBits()) + (is_unsigned ? "u" : "s");
  return ir.helper(name, {x, y}, x->getType(), [&](Args in) -> Value* {
    Value* one = ir.integer(x, 1);
    Value* zero = ir.zero(x->getType());
    auto* entry = b.GetInsertBlock();
    auto* body = llvm::BasicBlock::Create(b.getContext(), "body", entry->getParent());
    auto* done = llvm::BasicBlock::Create(b.getContext(), "done", entry->getParent());
    b.CreateBr(body);
    b.SetInsertPoint(body);
    auto* result = b.CreatePHI(x->getType(), 2);
    auto* base = b.CreatePHI(x->getType(), 2);
    auto* left = b.CreatePHI(x->getType(), 2);
    Value* set = b.CreateICmpNE(b.CreateAnd(left, one), zero);
    Value* next = b.CreateSelect(set, b.CreateMul(result, base), result);
    Value* square = b.CreateMul(base, base);
    Value* rest = b.CreateLShr(left, one);
    result->addIncoming(one, entry);
    result->addIncoming(next, body);
    base->addIncoming(in[0], entry);
    base->addIncoming(square, body);
    left->addIncoming(in[1], entry);
    left->addIncoming(rest, body);
    b.CreateCondBr(ir.any(b.CreateICmpNE(rest, zero)), body, done);
    b.SetInsertPoint(done);
    if (is_unsigned) return next;
    // A negative exponent gives 1 / x^|y|, which is an integer only for x = 1 and x = -1.
    Value* odd = b.CreateICmpNE(b.CreateAnd(in[1], one), zero);
    Value* minus_one = b.CreateSelect(odd, ir.integer(x, -1), one);
    Value* inverse = b.CreateSelect(b.CreateICmpEQ(in[0], ir.integer(x, -1)), minus_one, zero);
    inverse = b.CreateSelect(b.CreateICmpEQ(in[0], one), one, inverse);
    return b.CreateSelect(b.CreateICmpSLT(in[1], zero), inverse, next);
  });
}

// Shift counts outside the width: everything is shifted out.
Value* shift(Ir& ir, Prim prim, Value* x, Value* y, bool is_unsigned) {
  auto& b = ir.b;
  Value* last = ir.integer(y, x->getType()->getScalarSizeInBits() - 1);
  Value* beyond = b.CreateICmpUGT(y, last);  // negative counts too
  Value* count = b.CreateSelect(beyond, last, y);
  if (prim == Prim::shl)
    return b.CreateSelect(beyond, ir.zero(x->getType()), b.CreateShl(x, count));
  if (is_unsigned) return b.CreateSelect(beyond, ir.zero(x->getType()), b.CreateLShr(x, count));
  return b.CreateAShr(x, count);
}

Value* compare(Ir& ir, Prim prim, Value* x, Value* y, bool is_unsigned) {
  using P = llvm::CmpInst;
  P::Predicate predicate = P::ICMP_EQ;
  switch (prim) {
    case Prim::eq:
      break;
    case Prim::ne:
      predicate = P::ICMP_NE;
      break;
    case Prim::lt:
      predicate = is_unsigned ? P::ICMP_ULT : P::ICMP_SLT;
      break;
    case Prim::le:
      predicate = is_unsigned ? P::ICMP_ULE : P::ICMP_SLE;
      break;
    case Prim::gt:
      predicate = is_unsigned ? P::ICMP_UGT : P::ICMP_SGT;
      break;
    default:
      predicate = is_unsigned ? P::ICMP_UGE : P::ICMP_SGE;
  }
  return ir.b.CreateICmp(predicate, x, y);
}

Value* sign(Ir& ir, Value* x, bool is_unsigned) {
  auto& b = ir.b;
  Value* zero = ir.zero(x->getType());
  Value* above =
      b.CreateZExt(is_unsigned ? b.CreateICmpNE(x, zero) : b.CreateICmpSGT(x, zero), x->getType());
  return is_unsigned
             ? above
             : b.CreateOr(above,
                          b.CreateAShr(x, ir.integer(x, x->getType()->getScalarSizeInBits() - 1)));
}

// One word of Philox4x32-10, in i64 lanes that hold 32-bit words.
Value* philox(Ir& ir, Value* key, Value* counter, Value* word) {
  auto& b = ir.b;
  auto low = [&](Value* v) { return b.CreateAnd(v, ir.integer(v, 0xffffffff)); };
  auto high = [&](Value* v) { return b.CreateLShr(v, ir.integer(v, 32)); };
  std::array<Value*, 4> c = {low(counter), high(counter), ir.integer(key, 0), ir.integer(key, 0)};
  std::array<Value*, 2> k = {low(key), high(key)};
  for (int round = 0; round < 10; ++round) {
    Value* p = b.CreateMul(c[0], ir.integer(key, 0xD2511F53));
    Value* q = b.CreateMul(c[2], ir.integer(key, 0xCD9E8D57));
    c = {b.CreateXor(b.CreateXor(high(q), c[1]), k[0]), low(q),
         b.CreateXor(b.CreateXor(high(p), c[3]), k[1]), low(p)};
    k = {low(b.CreateAdd(k[0], ir.integer(key, 0x9E3779B9))),
         low(b.CreateAdd(k[1], ir.integer(key, 0xBB67AE85)))};
  }
  Value* bit0 = b.CreateICmpNE(b.CreateAnd(word, ir.integer(word, 1)), ir.zero(word->getType()));
  Value* bit1 = b.CreateICmpNE(b.CreateAnd(word, ir.integer(word, 2)), ir.zero(word->getType()));
  return b.CreateSelect(bit1, b.CreateSelect(bit0, c[3], c[2]), b.CreateSelect(bit0, c[1], c[0]));
}

// bool: add is or, mul is and, and so on.
Prim bool_spelling(Prim prim) {
  switch (prim) {
    case Prim::add:
    case Prim::max:
      return Prim::bit_or;
    case Prim::mul:
    case Prim::min:
      return Prim::bit_and;
    default:
      return prim;
  }
}

}  // namespace

Value* floor_divide(Ir& ir, Value* x, Value* y) { return floordiv(ir, x, y, false); }
Value* floor_remainder(Ir& ir, Value* x, Value* y) { return mod(ir, x, y, false); }

Value* emit_integer_prim(Ir& ir, Prim prim, DType dtype, Args a) {
  auto& b = ir.b;
  bool is_unsigned = dtype == DType::u8 || dtype == DType::boolean;
  if (dtype == DType::boolean) prim = bool_spelling(prim);
  switch (prim) {
    case Prim::add:
      return b.CreateAdd(a[0], a[1]);
    case Prim::sub:
      return b.CreateSub(a[0], a[1]);
    case Prim::mul:
      return b.CreateMul(a[0], a[1]);
    case Prim::floordiv:
      return floordiv(ir, a[0], a[1], is_unsigned);
    case Prim::mod:
      return mod(ir, a[0], a[1], is_unsigned);
    case Prim::truncdiv:
      return divide(ir, a[0], a[1], is_unsigned).quotient;
    case Prim::fmod:
      return divide(ir, a[0], a[1], is_unsigned).remainder;
    case Prim::pow:
      return power(ir, a[0], a[1], is_unsigned);
    case Prim::min:
      return b.CreateSelect(compare(ir, Prim::lt, a[1], a[0], is_unsigned), a[1], a[0]);
    case Prim::max:
      return b.CreateSelect(compare(ir, Prim::gt, a[1], a[0], is_unsigned), a[1], a[0]);
    case Prim::neg:
      return b.CreateNeg(a[0]);
    case Prim::abs:
      if (is_unsigned) return a[0];
      return b.CreateSelect(compare(ir, Prim::lt, a[0], ir.zero(a[0]->getType()), false),
                            b.CreateNeg(a[0]), a[0]);
    case Prim::sign:
      return sign(ir, a[0], is_unsigned);
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
      return a[0];
    case Prim::bit_and:
      return b.CreateAnd(a[0], a[1]);
    case Prim::bit_or:
      return b.CreateOr(a[0], a[1]);
    case Prim::bit_xor:
      return b.CreateXor(a[0], a[1]);
    case Prim::bit_not:
      return b.CreateNot(a[0]);
    case Prim::shl:
    case Prim::shr:
      return shift(ir, prim, a[0], a[1], is_unsigned);
    case Prim::philox:
      return philox(ir, a[0], a[1], a[2]);
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le:
    case Prim::gt:
    case Prim::ge:
      return compare(ir, prim, a[0], a[1], is_unsigned);
    default:
      break;
  }
  GEX_CHECK(false, loop::name_of(prim), " is not defined on ", dtype);
  return nullptr;
}

}  // namespace gex::codegen
