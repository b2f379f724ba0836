#pragma once
#include <utility>

#include "frontend/onnx/row.hpp"

namespace gex::onnx {

// Smallest and largest integer of a type.
std::pair<double, double> range_of(Elem elem);
// Input x minus its zero point (one, or one per element of an axis), in an exact type.
Value* centred(const Row& r, std::size_t x, std::size_t zero, std::int64_t axis, DType t);
// The product of inputs a and b minus their zero points: i32 for two operands of 8 bits, else a
// float type in which it is exact.
Value* integer_product(Row& r, std::size_t a, std::size_t a_zero, std::size_t b,
                       std::size_t b_zero);
// x quantised to 8 bits by its own range.
struct DynamicQuantised {
  Value *q, *scale, *zero;
};
DynamicQuantised quantised_by_range(const Row& r, Value* x);
// round(y) + zero, clamped to the range.
Value* requantised(const Row& r, Value* y, Elem elem, Value* zero);

}  // namespace gex::onnx
