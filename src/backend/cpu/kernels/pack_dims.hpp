#pragma once
// Positions in the dims of launches that pack constant operands. Strides count elements.

namespace gex::kernels {

// Positions in the dims of the launch that packs B ahead of time.
namespace pack_dims {
enum : int {
  batch0,
  batch1,
  n,
  k,
  b_strides,  // batch0, batch1, k, n
  count = b_strides + 4,
};
}

// Positions in the dims of the launch that packs weights ahead of time.
namespace conv_pack_dims {
enum : int {
  o,
  c,  // of one group
  kh,
  kw,
  w_strides,                 // o, c, kh, kw
  winograd = w_strides + 4,  // 1: transformed weights, see conv2d_packed_elements
  up,                        // height, width: those of a transposed convolution, else 0
  pad = up + 2,              // likewise
  source = pad + 2,          // DType of W; the packed weights have that of the problem
  count,
};
}

}  // namespace gex::kernels
