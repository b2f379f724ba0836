#pragma once
#include <utility>

#include "frontend/onnx/row.hpp"

namespace gex::onnx {

// Smallest and largest integer of a type.
std::pair<double, double> range_of(Elem elem);
// Input x minus its zero point (one, or one per element of an axis), in an exact type.
Value* centred(const Row& r, std::size_t x, std::size_t zero, std::int64_t axis, DType t);
// round(y) + zero, clamped to the range.
Value* requantised(const Row& r, Value* y, Elem elem, Value* zero);
// A float type in which sums of this many products of 8-bit integers are exact; for known weights,
// by their values. `out_axis`: the axis of the weights that is not summed over.
DType exact_type(Dim terms);
DType exact_type(const Row& r, std::size_t weights, std::size_t zero, std::int64_t out_axis,
                 Dim terms);

}  // namespace gex::onnx
