#pragma once
// An IRBuilder with the idioms that all emitters here use. A value is a scalar or a vector, as its
// LLVM type says, and every helper works on both.

#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "backend/cpu/llvm/target.hpp"
#include "base/dtype.hpp"

namespace gex::codegen {

class Ir {
 public:
  Ir(llvm::Module& module_in, const Target& target_in)
      : b(module_in.getContext()), module(module_in), target(target_in) {}

  llvm::IRBuilder<> b;
  llvm::Module& module;
  const Target& target;

  // --- types ---
  static int width(const llvm::Value* v) { return width(v->getType()); }
  static int width(const llvm::Type* t) {
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(t);
    return vector ? static_cast<int>(vector->getNumElements()) : 1;
  }
  static llvm::Type* widened(llvm::Type* scalar, int width) {
    return width == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(width));
  }
  // `scalar`, as wide as `v`.
  static llvm::Type* like(const llvm::Value* v, llvm::Type* scalar) {
    return widened(scalar, width(v));
  }
  llvm::Type* register_type(DType dtype);  // low floats live in f32, bool in i1
  llvm::Type* memory_type(DType dtype);    // low floats are i16, bool i8

  // --- constants ---
  llvm::Value* i64(std::int64_t value) { return b.getInt64(static_cast<std::uint64_t>(value)); }
  llvm::Value* real(const llvm::Value* like, double value) {
    return llvm::ConstantFP::get(like->getType(), value);
  }
  llvm::Value* integer(const llvm::Value* like, std::int64_t value) {
    return llvm::ConstantInt::get(like->getType(), static_cast<std::uint64_t>(value), true);
  }
  llvm::Value* iota(int width);  // 0, 1, 2, ... as i64; the scalar 0 for width 1
  llvm::Value* zero(llvm::Type* type) { return llvm::Constant::getNullValue(type); }

  // Memory on the stack, aligned for vectors.
  llvm::Value* stack_slot(llvm::Type* type, std::uint64_t count);

  // --- vectors ---
  llvm::Value* splat(llvm::Value* v, int width);
  llvm::Value* any(llvm::Value* mask);  // i1: some lane of a bool vector is set

  // --- arithmetic ---
  llvm::Value* fma(llvm::Value* x, llvm::Value* y, llvm::Value* z);
  llvm::Value* unary(llvm::Intrinsic::ID id, llvm::Value* x) {
    return b.CreateUnaryIntrinsic(id, x);
  }
  // c0 + c1*x + c2*x^2 + ... by Horner's rule with fused steps.
  llvm::Value* poly(llvm::Value* x, std::initializer_list<double> coefficients);
  llvm::Value* bits_of(llvm::Value* real);  // f32 -> i32, f64 -> i64
  llvm::Value* real_of(llvm::Value* bits);
  // NaN and out-of-range numbers give what the processor's instruction gives, constants included.
  llvm::Value* integer_of(llvm::Value* real, llvm::Type* scalar);
  llvm::Value* copysign(llvm::Value* magnitude, llvm::Value* sign);

  // Calls a function of the module that is created on first use and not inlined: for rare or bulky
  // code. `body` gets the arguments with the builder inside the function and returns the result.
  llvm::Value* helper(const std::string& name, llvm::ArrayRef<llvm::Value*> args,
                      llvm::Type* result,
                      const std::function<llvm::Value*(llvm::ArrayRef<llvm::Value*>)>& body);
  // Applies a scalar C function to each lane.
  llvm::Value* call_each_lane(const std::string& function, llvm::ArrayRef<llvm::Value*> args);
  void set_attributes(llvm::Function& function) const;

  // The function that lines belong to; null: code without lines.
  llvm::DISubprogram* debug_function = nullptr;
};

// While it lives, code is emitted for that line of the kernel's text. Line 0: the line stays.
class AtLine {
 public:
  AtLine(Ir& ir, int line) : ir_(ir), before_(ir.b.getCurrentDebugLocation()) {
    if (ir.debug_function == nullptr || line == 0) return;
    ir.b.SetCurrentDebugLocation(llvm::DILocation::get(
        ir.b.getContext(), static_cast<unsigned>(line), 0, ir.debug_function));
  }
  ~AtLine() { ir_.b.SetCurrentDebugLocation(before_); }
  AtLine(const AtLine&) = delete;
  AtLine& operator=(const AtLine&) = delete;

 private:
  Ir& ir_;
  llvm::DebugLoc before_;
};

}  // namespace gex::codegen
