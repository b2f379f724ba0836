#include "backend/cpu/llvm/ir.hpp"

#include <llvm/IR/Function.h>

#include <vector>

#include "base/error.hpp"

namespace gex::codegen {

using llvm::Value;

llvm::Type* Ir::register_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return b.getDoubleTy();
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return b.getFloatTy();
    case DType::i64:
      return b.getInt64Ty();
    case DType::i32:
      return b.getInt32Ty();
    case DType::i16:
      return b.getInt16Ty();
    case DType::i8:
    case DType::u8:
      return b.getInt8Ty();
    case DType::boolean:
      return b.getInt1Ty();
  }
  return nullptr;
}

llvm::Type* Ir::memory_type(DType dtype) {
  if (is_low_float(dtype)) return b.getInt16Ty();
  if (dtype == DType::boolean) return b.getInt8Ty();
  return register_type(dtype);
}

Value* Ir::stack_slot(llvm::Type* type, std::uint64_t count) {
  auto& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilderBase::InsertPointGuard guard(b);
  b.SetInsertPoint(&entry, entry.begin());
  auto* slot = b.CreateAlloca(type, b.getInt64(count));
  slot->setAlignment(llvm::Align(64));
  return slot;
}

Value* Ir::iota(int width) {
  if (width == 1) return i64(0);
  std::vector<llvm::Constant*> lanes;
  for (int l = 0; l < width; ++l) lanes.push_back(b.getInt64(static_cast<std::uint64_t>(l)));
  return llvm::ConstantVector::get(lanes);
}

Value* Ir::splat(Value* v, int width) {
  if (Ir::width(v) == width) return v;
  GEX_CHECK(Ir::width(v) == 1, "splat of a vector");
  return b.CreateVectorSplat(static_cast<unsigned>(width), v);
}

Value* Ir::any(Value* mask) {
  int w = width(mask);
  if (w == 1) return mask;
  Value* packed = b.CreateBitCast(mask, b.getIntNTy(static_cast<unsigned>(w)));
  return b.CreateICmpNE(packed, zero(packed->getType()));
}

Value* Ir::fma(Value* x, Value* y, Value* z) {
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

Value* Ir::poly(Value* x, std::initializer_list<double> coefficients) {
  auto it = coefficients.end();
  Value* sum = real(x, *--it);
  while (it != coefficients.begin()) sum = fma(sum, x, real(x, *--it));
  return sum;
}

Value* Ir::bits_of(Value* r) {
  llvm::Type* bits = r->getType()->getScalarSizeInBits() == 64 ? b.getInt64Ty() : b.getInt32Ty();
  return b.CreateBitCast(r, like(r, bits));
}

Value* Ir::real_of(Value* bits) {
  llvm::Type* r = bits->getType()->getScalarSizeInBits() == 64 ? b.getDoubleTy() : b.getFloatTy();
  return b.CreateBitCast(bits, like(bits, r));
}

Value* Ir::integer_of(Value* real, llvm::Type* scalar) {
  // LLVM may fold the conversion of an out-of-range constant to any number; a fence prevents that.
  Value* hidden = b.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {real->getType()}, {real});
  return b.CreateFPToSI(hidden, like(real, scalar));
}

Value* Ir::copysign(Value* magnitude, Value* sign) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
}

void Ir::set_attributes(llvm::Function& function) const {
  function.addFnAttr("target-cpu", target.cpu);
  function.addFnAttr("target-features", target.features);
  // Neither the calling convention nor LLVM's preferred width may narrow our vectors.
  function.addFnAttr("prefer-vector-width", std::to_string(target.vector_bytes * 8));
  function.addFnAttr("min-legal-vector-width", std::to_string(target.vector_bytes * 8));
  function.setDoesNotThrow();
}

Value* Ir::helper(const std::string& name, llvm::ArrayRef<Value*> args, llvm::Type* result,
                  const std::function<Value*(llvm::ArrayRef<Value*>)>& body) {
  std::string full = name + "." + std::to_string(width(result));
  llvm::Function* function = module.getFunction(full);
  if (!function) {
    std::vector<llvm::Type*> types;
    for (Value* a : args) types.push_back(a->getType());
    function = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                                      llvm::Function::InternalLinkage, full, module);
    set_attributes(*function);
    function->addFnAttr(llvm::Attribute::NoInline);
    function->setMemoryEffects(llvm::MemoryEffects::none());
    llvm::IRBuilderBase::InsertPointGuard guard(b);
    b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", function));
    b.SetCurrentDebugLocation({});  // lines belong to the kernel's function
    std::vector<Value*> inner;
    for (auto& a : function->args()) inner.push_back(&a);
    b.CreateRet(body(inner));
  }
  return b.CreateCall(function, args);
}

Value* Ir::call_each_lane(const std::string& name, llvm::ArrayRef<Value*> args) {
  llvm::Type* type = args[0]->getType();
  std::vector<llvm::Type*> scalars(args.size(), type->getScalarType());
  llvm::FunctionCallee callee = module.getOrInsertFunction(
      name, llvm::FunctionType::get(type->getScalarType(), scalars, false));
  int w = width(type);
  if (w == 1) return b.CreateCall(callee, args);
  return helper("each." + name, args, type, [&](llvm::ArrayRef<Value*> vectors) -> Value* {
    Value* result = zero(type);
    for (int l = 0; l < w; ++l) {
      std::vector<Value*> lane;
      for (Value* v : vectors) lane.push_back(b.CreateExtractElement(v, static_cast<uint64_t>(l)));
      result = b.CreateInsertElement(result, b.CreateCall(callee, lane), static_cast<uint64_t>(l));
    }
    return result;
  });
}

}  // namespace gex::codegen
