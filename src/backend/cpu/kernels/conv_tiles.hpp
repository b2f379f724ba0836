#pragma once
// The constants behind the grid and the scratch of a convolution; see tiles.hpp.

#include <cstdint>

#include "backend/cpu/kernels/form.hpp"
#include "backend/cpu/kernels/tiles.hpp"
#include "problems/conv2d.hpp"

namespace gex::kernels {

namespace conv2d_dims = problems::conv2d_dims;

// One unit of the grid: the smallest block of output that a worker can be given.
inline constexpr std::int64_t kConvUnitChannels = 32;
inline constexpr std::int64_t kConvUnitPixels = 48;
// Images of at most this many output pixels are split by channel: there the weights are the larger
// operand, and each weight is then packed by one worker only.
inline constexpr std::int64_t kSmallImage = 400;

// Groups of at most this many output channels use Form::direct.
inline constexpr std::int64_t kThinGroup = 4;

// Groups of at most this many channels, on either side, with square 3x3 or 5x5 kernels use
// Form::rows: rows of the image are read in place.
inline constexpr std::int64_t kRowGroup = 8;
inline constexpr std::int64_t kRowTaps = 25;
inline constexpr std::int64_t kFewRowProducts = 16;    // of a tap: Form::shifts is faster for more
inline constexpr std::int64_t kRowPixels = 64 * 1024;  // of a row of the result, at most

// Packed weights: one panel of the deepest convolution, or several panels of others.
inline constexpr std::int64_t kConvDepth = 5120;
// Elements of the padded copy of some input rows.
inline constexpr std::int64_t kConvImage = 160 * 1024;
// Smallest part of a row that is worth copying separately.
inline constexpr std::int64_t kFewestColumns = 32;
// Maximum number of input channels of 1x1 kernels for which pixels are read in place.
inline constexpr std::int64_t kShallow = 128;
// Output pixels that are finished at a time.
inline constexpr std::int64_t kConvPixels = 384;

// Form::direct: output rows at a time; maximum taps of a channel, gathered rows and weights.
inline constexpr std::int64_t kDirectRows = 8;
inline constexpr std::int64_t kDirectTaps = 128;
inline constexpr std::int64_t kDirectSlots = 128;
inline constexpr std::int64_t kDirectWeights = kTileElements - kThinGroup * kDirectRows * kTileCols;

// Form::shifts: elements after the copy of the image that a vector may read.
inline constexpr std::int64_t kShiftSlack = 64;
inline constexpr std::int64_t kShiftStride = 4;  // at most
inline constexpr std::int64_t kFewTaps = 40;     // of all channels: it is faster for any result

// Form::channels: pixels of the padded image at a time, taps at most, and the fewest channels.
inline constexpr std::int64_t kChannelPixels = 3000;
inline constexpr std::int64_t kChannelTaps = 1024;
inline constexpr std::int64_t kFewestChannels = 8;

// Form::winograd: results of a tile on a side, positions of its transformed inputs, and elements of
// all buffers together.
inline constexpr std::int64_t kWinogradTile = 4;
inline constexpr std::int64_t kWinogradPositions = (kWinogradTile + 2) * (kWinogradTile + 2);
inline constexpr std::int64_t kWinogradPanel = kPanelBytes / 4;
inline constexpr std::int64_t kWinogradSpace =
    kConvDepth * kWinogradPanel + kConvImage + 2 * kConvPixels * kWinogradPanel;
// Channels from one tile to the next: not a power of two, as kDepthStride.
GEX_IN_EVERY_VARIANT constexpr std::int64_t winograd_channel_stride(std::int64_t channels) {
  return (channels + 15) / 16 * 16 + 16;
}
// Per tile: transformed inputs, sums, a copy of the inputs of 16 channels, results in both orders.
GEX_IN_EVERY_VARIANT constexpr std::int64_t winograd_tiles_at_once(std::int64_t channels) {
  const std::int64_t tile =
      kWinogradPositions * (winograd_channel_stride(channels) + kWinogradPanel + 16) +
      2 * kWinogradTile * kWinogradTile * kWinogradPanel;
  return kWinogradSpace / tile;
}

// Form::transposed: elements of the copy of some pixels; results of a channel at a time follow it.
inline constexpr std::int64_t kUpImage = problems::kMostUpPixels;
static_assert(problems::kMostUpDepth == kConvDepth && kUpImage < kConvImage);

// The sizes of one group that determine the form of a convolution.
struct ConvSizes {
  std::int64_t in, out, height, width, kernel_h, kernel_w, out_h, out_w;
  std::int64_t stride[2], dilation[2], pad[2], up[2];
  bool copied;       // the input is narrower than the accumulators, or computed
  bool computed;     // by a prologue: it is not in memory
  bool adjacent;     // the pixels of an input row are adjacent
  bool dense;        // and its rows are: a plane is one run of pixels
  bool sums_of_f32;  // of an image in memory and a single group
  std::int64_t groups;

  GEX_IN_EVERY_VARIANT constexpr std::int64_t depth() const { return in * kernel_h * kernel_w; }
  // Columns of the input needed for all output columns, and rows needed for some output rows.
  GEX_IN_EVERY_VARIANT constexpr std::int64_t reach_x() const {
    return (out_w - 1) * stride[1] + (kernel_w - 1) * dilation[1] + 1;
  }
  GEX_IN_EVERY_VARIANT constexpr std::int64_t reach_y(std::int64_t rows) const {
    return (rows - 1) * stride[0] + (kernel_h - 1) * dilation[0] + 1;
  }
  // Output rows whose input fits the padded copy; 0: not even one.
  GEX_IN_EVERY_VARIANT constexpr std::int64_t rows_at_once() const {
    const std::int64_t row = in * reach_x();
    const std::int64_t beyond = (row > 0 ? kConvImage / row : 0) - reach_y(1);
    return beyond < 0 ? 0 : beyond / stride[0] + 1;
  }
  // Output columns whose input fits the padded copy; 0: not even one. Fewer than a row where rows
  // are long, as those of 1-d convolutions are.
  GEX_IN_EVERY_VARIANT constexpr std::int64_t columns_at_once() const {
    if (rows_at_once() > 0) return out_w;
    const std::int64_t column = in * reach_y(1);
    const std::int64_t beyond =
        (column > 0 ? kConvImage / column : 0) - (kernel_w - 1) * dilation[1] - 1;
    return beyond < 0 ? 0 : beyond / stride[1] + 1;
  }
  GEX_IN_EVERY_VARIANT constexpr std::int64_t smallest_run() const {
    return out_w < kFewestColumns ? out_w : kFewestColumns;
  }
  // No tap falls outside the image.
  GEX_IN_EVERY_VARIANT constexpr bool in_place() const {
    return !copied && pad[0] == 0 && pad[1] == 0 && reach_x() <= width && reach_y(out_h) <= height;
  }
  GEX_IN_EVERY_VARIANT constexpr bool is_thin() const { return out <= kThinGroup; }
  // With a stride of one pixel, one gathered row serves all taps of a kernel row.
  GEX_IN_EVERY_VARIANT constexpr bool shares_rows() const {
    return stride[1] == 1 && (kernel_w - 1) * dilation[1] <= kTileCols;
  }
  GEX_IN_EVERY_VARIANT constexpr std::int64_t slots_per_row() const {
    return shares_rows() ? 1 : kernel_w;
  }
  // Gathered rows needed for this many output rows.
  GEX_IN_EVERY_VARIANT constexpr std::int64_t slots(std::int64_t rows) const {
    return reach_y(rows) * slots_per_row();
  }

  // Square kernels of narrow groups with equal strides on both axes.
  GEX_IN_EVERY_VARIANT constexpr bool has_row_taps() const {
    return (kernel_h == 3 || kernel_h == 5) && kernel_w == kernel_h && stride[0] == stride[1] &&
           dilation[0] == 1 && dilation[1] == 1 && in <= kRowGroup && out <= kRowGroup;
  }

  // Form::shifts: distance from the first to the last tap among rows or columns with the same
  // remainder by the stride.
  GEX_IN_EVERY_VARIANT constexpr std::int64_t shift_reach(int axis) const {
    return ((axis == 0 ? kernel_h : kernel_w) - 1) * dilation[axis] / stride[axis];
  }
  // Rows of the result, of some columns, whose input fits the copy; 0: not even one.
  GEX_IN_EVERY_VARIANT constexpr std::int64_t shifted_rows(std::int64_t columns) const {
    const std::int64_t row = in * stride[0] * stride[1] * (columns + shift_reach(1));
    const std::int64_t rows = (kConvImage - kShiftSlack) / (row > 0 ? row : 1) - shift_reach(0);
    return rows < 0 ? 0 : rows;
  }
  // Columns of one row of the result whose input fits.
  GEX_IN_EVERY_VARIANT constexpr std::int64_t shifted_columns() const {
    const std::int64_t column = in * stride[0] * stride[1] * (shift_reach(0) + 1);
    const std::int64_t columns =
        (kConvImage - kShiftSlack) / (column > 0 ? column : 1) - shift_reach(1);
    return columns < 0 ? 0 : columns < out_w ? columns : out_w;
  }

  // Whether a tap reads rows or columns with this remainder.
  GEX_IN_EVERY_VARIANT constexpr bool is_shifted(int axis, std::int64_t part) const {
    const std::int64_t taps = axis == 0 ? kernel_h : kernel_w;
    for (std::int64_t k = 0; k < taps && k < stride[axis]; ++k)
      if (k * dilation[axis] % stride[axis] == part) return true;
    return false;
  }
  // A 1x1 kernel that meets each pixel, also of a computed image.
  GEX_IN_EVERY_VARIANT constexpr bool is_plain_window() const {
    return kernel_h == 1 && kernel_w == 1 && stride[0] == 1 && stride[1] == 1 && pad[0] == 0 &&
           pad[1] == 0 && dense && out_w == width && out_h == height;
  }
  // Weights are read one by one, pixels in vectors: few taps leave little work between moving
  // finished pixels into planes in the other form, and channels may not fill vectors there.
  GEX_IN_EVERY_VARIANT constexpr bool shifts_pay() const {
    if (out_h * out_w <= 4 * 16 || is_plain_product()) return false;
    if (is_thin()) return in >= 16 || in * out >= kFewRowProducts;
    return !fills_channels() || depth() <= kFewTaps;
  }
  // Form::rows loads the taps of a pixel again for each output channel, which is cheaper than a
  // copy of the image if there are few, or if the image does not fill the vectors of the other
  // forms.
  GEX_IN_EVERY_VARIANT constexpr bool rows_pay() const {
    return in * out < kFewRowProducts || out_h * out_w <= 4 * 16;
  }
  // Channels fill vectors about as well as pixels would.
  GEX_IN_EVERY_VARIANT constexpr bool fills_channels() const {
    constexpr std::int64_t lanes = 16;
    return out * 8 >= (out + lanes - 1) / lanes * lanes * 7;
  }

  // Whether Form::channels is faster than Form::rows, which is good at rows that fill vectors and
  // step by one pixel.
  GEX_IN_EVERY_VARIANT constexpr bool channels_pay() const {
    if (!can(Form::rows)) return true;
    return out_w <= 8 || (kernel_h == 5 && (stride[0] > 1 || out_w <= 12));
  }

  // Form::channels: rows of the result at a time, whose input and sums fit; 0: not even one.
  GEX_IN_EVERY_VARIANT constexpr std::int64_t channel_rows() const {
    const std::int64_t of_x = kChannelPixels / (reach_x() > 0 ? reach_x() : 1) - reach_y(1);
    const std::int64_t of_sums = kChannelPixels / (out_w > 0 ? out_w : 1);
    const std::int64_t rows = of_x < 0 ? 0 : of_x / stride[0] + 1;
    return rows < of_sums ? rows : of_sums;
  }

  // A 1x1 kernel that meets each pixel: the input is a matrix [channel][pixel], of which
  // kConvPixels columns are copied at a time if it can't be read in place.
  GEX_IN_EVERY_VARIANT constexpr bool is_plain_product() const {
    return is_plain_window() && (in_place() || in * kConvPixels <= kConvImage);
  }
  // If depth is small, transposing finished pixels into planes would take a large part of the time,
  // and channels may not fill vectors; but the pixels of a plane must fill vectors.
  GEX_IN_EVERY_VARIANT constexpr bool product_pays() const {
    constexpr std::int64_t lanes = 16;
    const std::int64_t pixels = out_h * out_w;
    return (in <= kShallow || !fills_channels()) &&
           pixels * 10 >= (pixels + lanes - 1) / lanes * lanes * 9;
  }

  // Costs of one image in multiplications of vectors, one cycle each at best, as measured: sums,
  // transforms of inputs and results, and weights that come from beyond the second-level cache.
  GEX_IN_EVERY_VARIANT constexpr double winograd_cost() const {
    constexpr std::int64_t m = kWinogradTile;
    const auto tiles = static_cast<double>(((out_w + m - 1) / m) * ((out_h + m - 1) / m));
    const auto inputs = static_cast<double>((in + 15) / 16);
    const auto outputs = static_cast<double>((out + 15) / 16);
    const double products = static_cast<double>(kWinogradPositions * in) * outputs;
    return tiles * (1.25 * products + 260 * inputs + 200 * outputs) + 6.4 * products;
  }
  GEX_IN_EVERY_VARIANT constexpr double direct_cost() const {
    // Form::shifts has pixels in its vectors, so channels need not fill them.
    const auto channels = static_cast<double>(shifts_pay() ? out : (out + 15) / 16 * 16);
    return 1.15 * static_cast<double>(out_h * out_w * depth()) * channels / 16;
  }
  GEX_IN_EVERY_VARIANT constexpr bool winograd_pays() const {
    return can(Form::winograd) && winograd_cost() < 0.9 * direct_cost();
  }

  GEX_IN_EVERY_VARIANT constexpr bool is_transposed() const { return up[0] > 1 || up[1] > 1; }

  GEX_IN_EVERY_VARIANT constexpr bool can(Form form) const {
    const std::int64_t taps = kernel_h * kernel_w;
    if (is_transposed() != (form == Form::transposed)) return false;
    switch (form) {
      case Form::pixels:
        return depth() > 0 && depth() <= kConvDepth &&
               (in_place() || columns_at_once() >= smallest_run());
      case Form::product:
        return depth() > 0 && depth() <= kConvDepth && is_plain_product();
      case Form::rows:
        return !computed && has_row_taps() && adjacent && stride[0] <= 2 && in > 0 && out_w > 0 &&
               out_w <= kRowPixels;
      case Form::shifts:
        return depth() > 0 && depth() <= kConvDepth && out_w > 0 && stride[0] <= kShiftStride &&
               stride[1] <= kShiftStride && shifted_columns() >= smallest_run();
      case Form::channels:
        return !computed && in == 1 && out == 1 && groups >= kFewestChannels && dense && taps > 0 &&
               taps <= kChannelTaps && out_h > 0 && out_w > 0 && channel_rows() > 0;
      case Form::direct:
        return !computed && is_thin() && taps <= kDirectTaps && slots(1) <= kDirectSlots &&
               out * in * taps <= kDirectWeights;
      case Form::winograd:
        return kernel_h == 3 && kernel_w == 3 && stride[0] == 1 && stride[1] == 1 &&
               dilation[0] == 1 && dilation[1] == 1 && sums_of_f32 && in > 0 &&
               winograd_tiles_at_once(in) >= 1;
      case Form::transposed:
        return groups == 1 && problems::has_up_kernel(in, kernel_h, kernel_w, up, pad);
      default:
        return form == Form::columns;
    }
  }
  GEX_IN_EVERY_VARIANT constexpr Form by_rule() const {
    if (is_transposed()) return Form::transposed;
    if (can(Form::channels) && channels_pay()) return Form::channels;
    if (can(Form::rows) && rows_pay()) return Form::rows;
    if (can(Form::product) && product_pays()) return Form::product;
    if (can(Form::shifts) && shifts_pay()) return Form::shifts;
    const bool fills = out_h * out_w <= 4 * 16 || fills_channels();
    if (!is_thin() && fills && can(Form::pixels)) return Form::pixels;
    return can(Form::direct) ? Form::direct : Form::columns;
  }
};

// `dims`: see problems::conv2d_dims.
GEX_IN_EVERY_VARIANT constexpr ConvSizes conv_sizes(DType x, const std::int64_t (&stride)[2],
                                                    const std::int64_t (&dilation)[2],
                                                    const std::int64_t (&pad)[2],
                                                    const std::int64_t (&up)[2],
                                                    std::int64_t groups, bool computed,
                                                    const std::int64_t* dims) {
  namespace at = conv2d_dims;
  return {dims[at::c] / groups,
          dims[at::o] / groups,
          dims[at::h],
          dims[at::w],
          dims[at::kh],
          dims[at::kw],
          dims[at::oh],
          dims[at::ow],
          {stride[0], stride[1]},
          {dilation[0], dilation[1]},
          {pad[0], pad[1]},
          {up[0], up[1]},
          computed || (x != DType::f64 && x != DType::f32),
          computed,
          dims[at::x_strides + 3] == 1,
          dims[at::x_strides + 3] == 1 && dims[at::x_strides + 2] == dims[at::w],
          x != DType::f64 && groups == 1 && !computed,
          groups};
}

// Per worker, for accumulators of this many bytes: the larger need of the two blocked forms. The
// epilogue's scratch follows.
constexpr std::int64_t conv_scratch_bytes(std::int64_t element) {
  const std::int64_t panel = kPanelBytes / element;
  const std::int64_t by_pixel =
      (kConvDepth * panel + kConvImage + 2 * kConvPixels * panel) * element + kConvDepth * 8;
  const std::int64_t by_tile =
      (kTileElements + kLeftRows * kDepthStride + kTileCols * kDepth) * element;
  return by_pixel < by_tile ? by_tile : by_pixel;
}
static_assert(kWinogradSpace * 4 <= conv_scratch_bytes(4));

}  // namespace gex::kernels
