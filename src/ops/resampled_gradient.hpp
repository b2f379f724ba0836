#pragma once
// The gradient of resampling along one axis.

#include "ops/core/build.hpp"

namespace gex::ops {

struct AxisResampling {
  std::string mode;  // nearest, nearest_exact, linear, cubic
  bool align_corners = false;
  double scale = 0;  // requested by the caller; 0: from the sizes
};

// `grad` has the results along `axis`; `in` elements were read there. Elements that a result did
// not read get nothing of its gradient, even if it is infinite.
Value* resampled_gradient(Graph& g, Value* grad, std::size_t axis, Dim in,
                          const AxisResampling& form);

}  // namespace gex::ops
