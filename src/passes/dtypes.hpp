#pragma once

#include "base/dtype.hpp"

namespace gex::passes {

// Whether every value of `narrow` is a value of `wide`, so that a cast to it and back changes
// nothing.
inline bool holds_all_values(DType wide, DType narrow) {
  return narrow == wide || (is_low_float(narrow) && (wide == DType::f32 || wide == DType::f64)) ||
         (narrow == DType::f32 && wide == DType::f64) || (is_int(narrow) && wide == DType::i64) ||
         (narrow == DType::boolean && wide != DType::boolean);
}

}  // namespace gex::passes
