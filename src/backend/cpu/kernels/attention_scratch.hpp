#pragma once
// Scratch memory of the attention kernel; used by the kernel and by the launch's size formula.

#include "backend/cpu/kernels/tiles.hpp"
#include "problems/attention.hpp"

namespace gex::kernels {

namespace attention_dims = problems::attention_dims;

// Per worker, in elements of the accumulator type; a prologue's staging and the epilogue's own
// scratch follow. Sizes are numbers or Dims.
template <class Size>
GEX_IN_EVERY_VARIANT constexpr Size attention_scratch_elements(Size depth_blocks,
                                                               Size value_stride) {
  return Size(kQueryRows * kDepthStride + 2 * kQueryBlock + kKeyBlock * kDepth) +
         Size(kKeyBlock + kQueryBlock) * value_stride + Size(kQueryBlock * kDepthStride) +
         (depth_blocks - Size(1)) * Size(kQueryRows * kDepthStride);
}

}  // namespace gex::kernels
