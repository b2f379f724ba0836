#pragma once
// 2-d convolution, its gradients, and 1-d convolution with height 1. A bias is part of the
// epilogue.
//
// Convolution. Buffers: [X, W, Y], or with an epilogue [X, W, extra...]; then the inputs of X's
// prologue. The epilogue's grid is the dense [N, O, OH, OW].
//
// Gradient of the weights. w is the dtype of the output gradient G, y that of the weight gradient.
// Buffers: [X, G, dW]; the dims have the strides of dW in place of W's and those of G in place of
// Y's.
//
// Gradient of the input. x is the dtype of the input gradient, y that of the output gradient.
// Buffers: [G, W, dX]; the dims have the strides of dX in place of X's and those of G, whose
// columns are adjacent, in place of Y's. Only for strides of 2, dilations of 1 and square 3x3 or
// 5x5 kernels.

#include <array>
#include <cstdint>

#include "base/dtype.hpp"

namespace gex::problems {

// Positions in the dims of a launch. Strides count elements.
namespace conv2d_dims {
enum : int {
  n,
  c,
  h,
  w,
  o,
  oh,
  ow,
  kh,
  kw,
  x_strides,                  // n, c, h, w
  w_strides = x_strides + 4,  // o, c/groups, kh, kw
  y_strides = w_strides + 4,  // n, o, oh, ow; ignored with an epilogue
  count = y_strides + 4,      // the dims of the epilogue follow
};
}

struct Conv2dProblem {
  DType x = DType::f32;
  DType w = DType::f32;  // as a and b of matmul.hpp; i8 and u8 without padding and groups
  DType y = DType::f32;  // f32, f16, bf16; f64 or f32 for f64; i32; ignored with an epilogue
  std::array<std::int64_t, 2> stride = {1, 1};  // height, width
  std::array<std::int64_t, 2> dilation = {1, 1};
  std::array<std::int64_t, 2> pad = {0, 0};  // before the first row and column; the padding after
                                             // the last follows from the output's size
  std::int64_t groups = 1;
  bool w_packed = false;    // W is in the layout of the target's pack function
  bool winograd = false;    // and transformed for Winograd's algorithm
  bool x_computed = false;  // by a prologue, as f32 or f64; then X's rows are dense

  bool operator==(const Conv2dProblem&) const = default;
};

struct Conv2dWeightGradProblem {
  Conv2dProblem conv;
  bool operator==(const Conv2dWeightGradProblem&) const = default;
};

struct Conv2dInputGradProblem {
  Conv2dProblem conv;
  bool operator==(const Conv2dInputGradProblem&) const = default;
};

}  // namespace gex::problems
