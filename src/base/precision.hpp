#pragma once
// Precision of the floating-point types.

#include "base/dtype.hpp"

namespace gex {

// The distance from 1 to the next larger number; 0 for integer types.
constexpr double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return 0;
  }
}

}  // namespace gex
