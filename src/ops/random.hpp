#pragma once
// Ops that draw random numbers: their attributes, and the parts of dropout.

#include <tuple>

#include "ir/graph.hpp"
#include "ops/core/attributes.hpp"

namespace gex::ops {

// `stream` distinguishes the draws of one graph, which share the key.
struct Random {
  DType dtype = DType::f32;
  Dims shape;
  std::int64_t stream = 0;
  static constexpr auto fields() {
    return std::tuple{field("dtype", &Random::dtype), field("shape", &Random::shape),
                      field("stream", &Random::stream)};
  }
};

struct Bernoulli {
  std::int64_t stream = 0;
  static constexpr auto fields() { return std::tuple{field("stream", &Bernoulli::stream)}; }
};

struct Dropout {
  double p = 0.5;
  std::int64_t stream = 0;
  static constexpr auto fields() {
    return std::tuple{field("p", &Dropout::p), field("stream", &Dropout::stream)};
  }
};

// x with elements zeroed with probability p and the others scaled up, in the compute type; and the
// mask of kept elements.
struct DroppedOut {
  Value* result;
  Value* kept;
};
DroppedOut dropped_out(Graph& g, Value* x, Value* key, const Dropout& attrs);

}  // namespace gex::ops
