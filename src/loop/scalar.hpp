#pragma once
// Scalar semantics: how a value of each dtype is held, rounded, converted, loaded and stored, and
// what every primitive of math.def computes. Shared by the builder's constant folding and the
// reference executor, so that the two can't disagree.

#include <cstdint>
#include <optional>
#include <span>

#include "base/dtype.hpp"
#include "loop/kernel.hpp"

namespace gex::loop {

// Floats of every width are in `f`, integers and bool (0 or 1) in `i`.
union ScalarValue {
  double f;
  std::int64_t i;
};

// Rounds (floats; low floats through f32) or wraps (integers) a raw result to the dtype.
ScalarValue normalise(DType dtype, ScalarValue raw);
// Floats to integers truncate like x86 and PyTorch's kernels there: to i32, then wrapped to i16 and
// i8; to i64, then wrapped to u8. NaN and values out of range of the first conversion give its
// smallest number. To bool: != 0.
inline bool converts_through_i32(DType to) {
  return to == DType::i32 || to == DType::i16 || to == DType::i8;
}
ScalarValue convert(ScalarValue value, DType from, DType to);
ScalarValue load_scalar(DType dtype, const void* base, std::int64_t element);
void store_scalar(DType dtype, void* base, std::int64_t element, ScalarValue value);

// Which operand dtypes a primitive accepts (for select: of the two values).
bool accepts(Prim prim, DType operand);
// The result's dtype, or nothing if the operands do not match the primitive.
std::optional<DType> result_dtype(Prim prim, std::span<const DType> operands);
// Whether every backend must give the same bits: such primitives may be folded at build time.
bool is_exact(Prim prim);
bool is_commutative(Prim prim, DType operand);

// Computes in double or i64; the caller normalises to the result's dtype. `operand` is the dtype of
// the (last) operand. Unused operands are ignored.
using PrimFn = ScalarValue (*)(ScalarValue a, ScalarValue b, ScalarValue c);
PrimFn prim_function(Prim prim, DType operand);

// A constant expression's value and back.
ScalarValue value_of(const Expr& constant);
Expr constant_expr(DType dtype, ScalarValue value);

}  // namespace gex::loop
