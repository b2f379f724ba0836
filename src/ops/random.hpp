#pragma once
// Attributes of the ops that draw random numbers.

#include <tuple>

#include "ops/attributes.hpp"

namespace gex::ops {

// `stream` tells the draws of one graph apart: they share the key.
struct Random {
  DType dtype = DType::f32;
  Dims shape;
  std::int64_t stream = 0;
  static constexpr auto fields() {
    return std::tuple{field("dtype", &Random::dtype), field("shape", &Random::shape),
                      field("stream", &Random::stream)};
  }
};

}  // namespace gex::ops
