#pragma once
// 2-d convolution on the CPU: Y[n,o,:,:] = sum over the group's channels and taps, as an implicit
// product with a packed column matrix. 1-d is a height of 1. The bias belongs into the epilogue.
//
// Buffers: [X, W, Y], or with an epilogue [X, W, extra...]; X's is not read where it is computed.
// Then the inputs of its prologue. Dims: see conv2d_dims.hpp. The epilogue's grid is the dense [N,
// O, OH, OW]; it is called for segments of one [OH*OW] plane.

#include <array>
#include <cstdint>
#include <optional>

#include "backend/cpu/kernels/conv2d_dims.hpp"
#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/cpu/kernels/form.hpp"
#include "backend/cpu/kernels/tiles.hpp"
#include "base/dim/dim.hpp"
#include "base/dtype.hpp"
#include "base/hash.hpp"

namespace gex::kernels {

struct Variant;

struct Conv2dProblem {
  DType x = DType::f32;
  DType w = DType::f32;  // x and w: any of f32, f16, bf16, accumulated in f32; or both f64
  DType y = DType::f32;  // f32, f16, bf16; f64 or f32 for an f64 problem; ignored with an epilogue
  std::array<std::int64_t, 2> stride = {1, 1};  // height, width
  std::array<std::int64_t, 2> dilation = {1, 1};
  std::array<std::int64_t, 2> pad = {0, 0};  // before the first row and column; the padding after
                                             // the last follows from the output's size
  std::int64_t groups = 1;
  bool w_packed = false;    // W was written by make_conv2d_pack
  bool x_computed = false;  // by a prologue, as f32 or f64; then X's rows are dense

  bool operator==(const Conv2dProblem&) const = default;
  Hash hash() const;
};

Dim conv2d_grid(const Conv2dProblem& problem, Dim images, Dim out_channels, Dim out_h, Dim out_w);
// For each worker, without what the epilogue itself asks for.
Dim conv2d_scratch_bytes(const Conv2dProblem& problem);

// UserError for dtypes other than those above and for strides, dilations or groups below 1.
program::Callable make_conv2d(const Conv2dProblem& problem, const Attached& attached = {},
                              const Variant* variant = nullptr, Form form = Form::by_rule);

// Weights packed ahead of time (frozen ones), where their dtype is that of the sums and the kernel
// would pack them in each call: panels [groups][ceil(O/groups/panel)][C/groups*kh*kw][panel].
// Launch: buffers [W, packed], dims conv_pack_dims, no scratch.
bool conv2d_packs_weights(const Conv2dProblem& problem, const ConvSizes& sizes);
Dim conv2d_pack_grid(const Conv2dProblem& problem, Dim out_channels);
Dim conv2d_packed_elements(const Conv2dProblem& problem, Dim out_channels, Dim depth);
program::Callable make_conv2d_pack(const Conv2dProblem& problem, const Variant* variant = nullptr);

// The gradient of the weights. In the problem, w is the dtype of the result's gradient and y that
// of the weights' gradient; there is no epilogue. Launch: buffers [X, G, dW]; dims as of conv2d,
// with the strides of dW for those of W and the strides of G for those of Y.
Dim conv2d_weight_grad_grid(const Conv2dProblem& problem, Dim out_channels, Dim taps);
Dim conv2d_weight_grad_scratch_bytes(const Conv2dProblem& problem);
program::Callable make_conv2d_weight_grad(const Conv2dProblem& problem,
                                          const Variant* variant = nullptr);

// The gradient of the input of a convolution with steps of two, dilations of one, square kernels of
// kRowTaps taps at most, 3 or 5 a side, and groups of kRowGroup channels at most. In the problem, x
// is the dtype of the input's gradient and y that of the result's; there is no epilogue. Launch:
// buffers [G, W, dX]; dims as of conv2d, with the strides of dX for those of X and the strides of
// G, whose columns are adjacent, for those of Y.
Dim conv2d_input_grad_grid(Dim images, Dim channels);
Dim conv2d_input_grad_scratch_bytes(const Conv2dProblem& problem);
program::Callable make_conv2d_input_grad(const Conv2dProblem& problem,
                                         const Variant* variant = nullptr);

}  // namespace gex::kernels
