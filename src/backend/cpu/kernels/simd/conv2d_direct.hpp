#pragma once
// Convolution of thin groups (mainly depthwise), where packed columns would hardly be reused: the
// input rows of a few output rows are widened and padded once, then every tap reads them shifted,
// accumulating in registers.

#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/simd/columns.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct DirectConv {
  static constexpr i64 kChannels = kThinGroup;
  static constexpr i64 kRows = kDirectRows;
  // A gathered row has room for the extent of a kernel and for the vector at its last element.
  static constexpr i64 kSlotStride = 2 * kTileCols + kPanel<T>;
  static_assert(kDirectSlots * kSlotStride <= kLeftRows * kDepthStride + kTileCols * kDepth);

  const Columns<T>& columns;
  const Conv2dContext& context;
  const ConvSizes& sizes;
  const TileScratch<T>& scratch;
  i64 group_in, group_out;

  i64 taps() const { return columns.kernel_h * columns.kernel_w; }

  T* weights() const { return scratch.tile + kChannels * kRows * kTileCols; }
  T* tile(i64 channel, i64 row) const { return scratch.tile + (channel * kRows + row) * kTileCols; }

  // `plane`: offset of the group's first input plane; `w`: its weights.
  // finish(values, output channel of the group, column, count).
  template <class Finish>
  void run(i64 plane, const MatrixView& w, const i64* w_strides, i64 col0, i64 col1,
           const Finish& finish) const {
    const i64 depth = group_in * taps(), out_w = columns.out_w;
    columns.widen_weights(weights(), w, w_strides, depth, group_out);
    i64 rows_at_once = kRows;
    while (rows_at_once > 1 && sizes.slots(rows_at_once) > kDirectSlots) --rows_at_once;
    for (i64 col = col0; col < col1;) {
      const i64 y = col / out_w, x = col % out_w;
      const i64 width = smaller(out_w - x, col1 - col);
      const bool whole = width == out_w;
      const i64 rows = whole ? smaller(rows_at_once, (col1 - col) / out_w) : 1;
      for (i64 done = 0; done < width; done += kTileCols) {
        const i64 count = smaller(kTileCols, width - done);
        sum_block(plane, y, rows, x + done, count);
        for (i64 r = 0; r < rows; ++r)
          for (i64 o = 0; o < group_out; ++o) finish(tile(o, r), o, col + r * out_w + done, count);
      }
      col += rows * width;
    }
  }

  // tile(o, r)[i] = the sum over all channels and taps for output (y + r, x + i).
  void sum_block(i64 plane, i64 y, i64 rows, i64 x, i64 count) const {
    const i64 depth = group_in * taps();
    if (depth == 0)
      for (i64 i = 0; i < kChannels * kRows * kTileCols; ++i) scratch.tile[i] = T{};
    for (i64 channel = 0; channel < group_in; ++channel) {
      gather_rows(plane + channel * columns.strides[1], y, rows, x, count);
      for (i64 r = 0; r < rows; ++r) {
        const T* sources[kDirectTaps];
        for (i64 k = 0, tap_y = 0; tap_y < columns.kernel_h; ++tap_y)
          for (i64 tap_x = 0; tap_x < columns.kernel_w; ++tap_x, ++k)
            sources[k] = source(r * context.stride[0] + tap_y * context.dilation[0], tap_x);
        for (i64 o = 0; o < group_out; ++o)
          add_taps(tile(o, r), sources, weights() + o * depth + channel * taps(), taps(), count,
                   channel > 0);
      }
    }
  }

  // `row` counts input rows from the first that the block reads.
  T* source(i64 row, i64 tap_x) const {
    if (sizes.shares_rows()) return scratch.left + row * kSlotStride + tap_x * context.dilation[1];
    return scratch.left + (row * columns.kernel_w + tap_x) * kSlotStride;
  }

  void gather_rows(i64 plane, i64 y, i64 rows, i64 x, i64 count) const {
    const bool share = sizes.shares_rows();
    const i64 reach = share ? (columns.kernel_w - 1) * context.dilation[1] : 0;
    const i64* strides = columns.strides;
    const i64 last_row = sizes.reach_y(rows);
    with_storage<T>(context.x, columns.data, [&](auto* base) {
      for (i64 row = 0; row < last_row; ++row) {
        const i64 input_y = columns.input_y(y, 0) + row;
        const bool outside = input_y < 0 || input_y >= columns.height;
        for (i64 tap_x = 0; tap_x < sizes.slots_per_row(); ++tap_x) {
          const i64 input_x = columns.input_x(x, tap_x);
          const auto inside = columns.inside_from(input_x);
          columns.gather(source(row, tap_x),
                         base + plane + input_y * strides[2] + input_x * strides[3],
                         context.stride[1] * strides[3], inside.first, outside ? 0 : inside.last,
                         count + reach);
        }
      }
    });
  }

  // Whole vectors only (all rows have room): a scalar remainder could round differently, and its
  // position depends on the range.
  static void add_taps(T* __restrict acc, const T* const* rows, const T* weights, i64 taps,
                       i64 count, bool accumulate) {
    constexpr int lanes = kLanes<T>;
    i64 i = 0;
    for (; i + lanes < count; i += 2 * lanes) {
      Vec<T> sum0 = {}, sum1 = {};
      if (accumulate) sum0 = load<T>(acc + i), sum1 = load<T>(acc + i + lanes);
      for (i64 t = 0; t < taps; ++t) {
        sum0 = mul_add(splat(weights[t]), load<T>(rows[t] + i), sum0);
        sum1 = mul_add(splat(weights[t]), load<T>(rows[t] + i + lanes), sum1);
      }
      store(acc + i, sum0);
      store(acc + i + lanes, sum1);
    }
    if (i < count) {
      Vec<T> sum = {};
      if (accumulate) sum = load<T>(acc + i);
      for (i64 t = 0; t < taps; ++t) sum = mul_add(splat(weights[t]), load<T>(rows[t] + i), sum);
      store(acc + i, sum);
    }
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
