#include "backend/cpu/llvm/math.hpp"

#include "base/error.hpp"
#include "loop/functions.hpp"

namespace gex::codegen {

using llvm::Value;
using loop::Prim;

bool is_math(Prim prim) { return loop::is_function(prim); }

namespace {

Value* emit_f64(Ir& ir, Prim prim, llvm::ArrayRef<Value*> args) {
  if (prim == Prim::sigmoid) {
    Value* one = ir.real(args[0], 1);
    Value* e = ir.call_each_lane("exp", {ir.b.CreateFNeg(args[0])});
    return ir.b.CreateFDiv(one, ir.b.CreateFAdd(one, e));
  }
  return ir.call_each_lane(std::string(loop::name_of(prim)), args);
}

}  // namespace

Value* emit_math(Ir& ir, Prim prim, llvm::ArrayRef<Value*> args) {
  Value* x = args[0];
  if (x->getType()->getScalarType()->isDoubleTy()) return emit_f64(ir, prim, args);
  switch (prim) {
    case Prim::pow:
      return math::pow(ir, x, args[1]);
    case Prim::atan2:
      return math::atan2(ir, x, args[1]);
    case Prim::exp:
      return math::exp(ir, x);
    case Prim::exp2:
      return math::exp2(ir, x);
    case Prim::expm1:
      return math::expm1(ir, x);
    case Prim::log:
      return math::log(ir, x);
    case Prim::log2:
      return math::log2(ir, x);
    case Prim::log10:
      return math::log10(ir, x);
    case Prim::log1p:
      return math::log1p(ir, x);
    case Prim::sin:
      return math::sin_or_cos(ir, x, false);
    case Prim::cos:
      return math::sin_or_cos(ir, x, true);
    case Prim::tan:
      return math::tan(ir, x);
    case Prim::asin:
      return math::asin(ir, x);
    case Prim::acos:
      return math::acos(ir, x);
    case Prim::atan:
      return math::atan(ir, x);
    case Prim::sinh:
      return math::sinh(ir, x);
    case Prim::cosh:
      return math::cosh(ir, x);
    case Prim::tanh:
      return math::tanh(ir, x);
    case Prim::sigmoid:
      return math::sigmoid(ir, x);
    case Prim::erf:
      return math::erf(ir, x);
    default:
      break;
  }
  GEX_CHECK(false, loop::name_of(prim), " is not a math function");
  return nullptr;
}

}  // namespace gex::codegen
