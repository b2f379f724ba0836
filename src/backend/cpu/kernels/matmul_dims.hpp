#pragma once
// Positions in the dims of a matmul launch. Strides count elements; a stride of 0 broadcasts.

namespace gex::kernels {

namespace matmul_dims {
enum : int {
  batch0,
  batch1,
  m,
  n,
  k,
  a_strides,                  // batch0, batch1, m, k
  b_strides = a_strides + 4,  // batch0, batch1, k, n; packed: batch0, batch1 (k and n are ignored)
  c_strides = b_strides + 4,  // batch0, batch1, m, n; ignored with an epilogue
  count = c_strides + 4,      // the epilogue's dims follow
};
}

// Of the launch that packs B ahead of time.
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

}  // namespace gex::kernels
