#pragma once
// The gradient of resampling along one axis.

#include "ops/core/build.hpp"

namespace gex::ops {

struct AxisResampling {
  std::string mode;  // nearest, nearest_exact, linear, cubic
  bool align_corners = false;
  double scale = 0;  // what the caller asked for; 0: as the sizes say
};

// `grad` is of results along `axis`; `in` elements were read there. What a result did not read gets
// nothing of its gradient, be that infinite.
Value* resampled_gradient(Graph& g, Value* grad, std::size_t axis, Dim in,
                          const AxisResampling& form);

}  // namespace gex::ops
