#pragma once
// Positions in the dims of an attention launch. Strides count elements; a stride of 0 broadcasts.

#include "backend/cpu/kernels/tiles.hpp"

namespace gex::kernels::attention_dims {
enum : int {
  batch,
  heads,
  kv_heads,
  queries,
  keys,
  head_size,
  value_size,
  q_strides,                       // batch, head, query, element
  k_strides = q_strides + 4,       // batch, kv head, key, element
  v_strides = k_strides + 4,       // batch, kv head, key, element
  out_strides = v_strides + 4,     // batch, head, query, element
  mask_strides = out_strides + 4,  // batch, head, query, key; only with a mask
  count_without_mask = mask_strides,
  count_with_mask = mask_strides + 4,
};
}  // namespace gex::kernels::attention_dims

namespace gex::kernels {

// Of one worker, in elements of what scores are summed in; a prologue's staging and the epilogue's
// own scratch follow. Sizes are numbers or Dims.
template <class Size>
GEX_IN_EVERY_VARIANT constexpr Size attention_scratch_elements(Size depth_blocks,
                                                               Size value_stride) {
  return Size(kQueryRows * kDepthStride + 2 * kQueryRows + kKeyBlock * kDepth) +
         Size(kKeyBlock + kQueryRows) * value_stride +
         depth_blocks * Size(kQueryRows * kDepthStride);
}

}  // namespace gex::kernels
