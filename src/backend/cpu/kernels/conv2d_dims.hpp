#pragma once
// Positions in the dims of a conv2d launch. Strides count elements.

namespace gex::kernels::conv2d_dims {
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
  count = y_strides + 4,      // the epilogue's dims follow
};
}  // namespace gex::kernels::conv2d_dims

// Of the launch that packs weights ahead of time.
namespace gex::kernels::conv_pack_dims {
enum : int {
  o,
  c,  // of one group
  kh,
  kw,
  w_strides,  // o, c, kh, kw
  count = w_strides + 4,
};
}  // namespace gex::kernels::conv_pack_dims
