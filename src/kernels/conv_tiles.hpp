#pragma once
// The fixed sizes behind the grid and the scratch of a convolution; see tiles.hpp.

#include <cstdint>

#include "kernels/tiles.hpp"

namespace gex::kernels {

// One unit of the grid: the smallest piece of output a worker can be given.
inline constexpr std::int64_t kConvUnitChannels = 32;
inline constexpr std::int64_t kConvUnitPixels = 48;
// Images of at most this many output pixels are shared out by channel: there the weights are the
// larger operand, and each is then packed by one worker only.
inline constexpr std::int64_t kSmallImage = 400;

// Packed weights: one panel of the deepest convolution, or several panels of others.
inline constexpr std::int64_t kConvDepth = 5120;
// Elements of a padded copy of some input rows.
inline constexpr std::int64_t kConvImage = 160 * 1024;
// Output pixels that are finished at once.
inline constexpr std::int64_t kConvPixels = 384;

// Of one worker, for accumulators of this many bytes: the larger need of the two blocked forms. The
// epilogue's scratch follows it.
constexpr std::int64_t conv_scratch_bytes(std::int64_t element) {
  const std::int64_t panel = kPanelBytes / element;
  const std::int64_t by_pixel =
      (kConvDepth * panel + kConvImage + 2 * kConvPixels * panel) * element + kConvDepth * 8;
  const std::int64_t by_tile =
      (kTileElements + kLeftRows * kDepthStride + kTileCols * kDepth) * element;
  return by_pixel < by_tile ? by_tile : by_pixel;
}

}  // namespace gex::kernels
