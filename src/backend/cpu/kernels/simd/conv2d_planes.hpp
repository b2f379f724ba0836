#pragma once
// Convolution of thin groups (mainly depthwise) with stride one: each tap is a shift of the padded
// plane, so whole planes are summed in vectors that span row ends. Values between the rows are
// dropped when rows are stored.

#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/simd/columns.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"
#include "backend/cpu/kernels/simd/planes.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct PlaneConv {
  static constexpr i64 kTaps = kDirectTaps;
  static constexpr i64 kBlock = 4096;  // elements of a block that stays in the first-level cache
  static constexpr i64 kStep = 4 * kLanes<T>;
  static constexpr i64 kRoomOfX = kLeftRows * kDepthStride + kTileCols * kDepth;
  static constexpr i64 kRoomOfSums = kTileElements / 3;  // then dense rows, then weights

  const Columns<T>& columns;
  const Conv2dContext& context;
  const TileScratch<T>& scratch;
  i64 group_in, group_out, taps, row_stride, elements_of_x = 0;
  i64 rows_at_once = 0;  // 0: does not fit
  i64 reach[2];          // distance from the first to the last tap

  PlaneConv(const Columns<T>& all, const Conv2dContext& c, const TileScratch<T>& s, i64 in, i64 out)
      : columns(all),
        context(c),
        scratch(s),
        group_in(in),
        group_out(out),
        taps(all.kernel_h * all.kernel_w),
        reach{(all.kernel_h - 1) * c.dilation[0], (all.kernel_w - 1) * c.dilation[1]} {
    row_stride = all.out_w + reach[1];
    if (c.stride[0] != 1 || c.stride[1] != 1 || all.strides[3] != 1 || in == 0 ||
        out > kThinGroup || taps > kTaps || out * in * taps > kRoomOfSums || all.out_w == 0)
      return;
    const i64 of_sums = smaller(kRoomOfSums - kStep, larger(kBlock, row_stride)) / row_stride;
    const i64 of_x = (kRoomOfX / in - reach[1] - kStep) / row_stride - reach[0];
    rows_at_once = larger(smaller(smaller(of_sums, of_x), all.out_h), i64{0});
    // For one channel, including what the last step of the last tap reads.
    elements_of_x = (rows_at_once + reach[0]) * row_stride + reach[1] + kStep;
  }

  bool fits() const { return rows_at_once > 0; }
  T* sums() const { return scratch.tile; }
  T* dense() const { return scratch.tile + kRoomOfSums; }
  T* weights() const { return scratch.tile + 2 * kRoomOfSums; }

  // As in DirectConv.
  template <class Finish>
  void run(i64 plane, const MatrixView& w, const i64* w_strides, i64 col0, i64 col1,
           const Finish& finish) const {
    const i64 depth = group_in * taps, out_w = columns.out_w;
    columns.widen_weights(weights(), w, w_strides, depth, group_out);
    const i64 end = ceil_div(col1, out_w);
    for (i64 y = col0 / out_w; y < end; y += rows_at_once) {
      const i64 rows = smaller(rows_at_once, end - y);
      gather(plane, y, rows);
      const i64 first = larger(col0, y * out_w), last = smaller(col1, (y + rows) * out_w);
      for (i64 o = 0; o < group_out; ++o) {
        for (i64 c = 0; c < group_in; ++c)
          add_channel(weights() + o * depth + c * taps, c, rows, c > 0);
        finish(dense_rows(rows) + first - y * out_w, o, first, last - first);
      }
    }
  }

  void gather(i64 plane, i64 y, i64 rows) const {
    const PlaneWindow window = {y - context.pad[0], 1, rows + reach[0], -context.pad[1]};
    const i64 filled = window.rows * row_stride;
    with_storage<T>(context.x, columns.data, [&](auto* base) {
      for (i64 c = 0; c < group_in; ++c) {
        T* dst = scratch.left + c * elements_of_x;
        const i64 at = plane + c * columns.strides[1];
        const Plane from{base + at, columns.height, columns.width, columns.strides[2],
                         columns.extent - at};
        copy_window(dst, row_stride, from, window);
        for (i64 i = filled; i < elements_of_x; ++i) dst[i] = T{};
      }
    });
  }

  void add_channel(const T* weights, i64 channel, i64 rows, bool accumulate) const {
    const T* sources[kTaps];
    const T* x = scratch.left + channel * elements_of_x;
    for (i64 k = 0, y = 0; y < columns.kernel_h; ++y)
      for (i64 tap_x = 0; tap_x < columns.kernel_w; ++tap_x, ++k)
        sources[k] = x + y * context.dilation[0] * row_stride + tap_x * context.dilation[1];
    constexpr i64 lanes = kLanes<T>;
    const i64 count = rows * row_stride;
    for (i64 i = 0; i < count; i += kStep) {
      T* at = sums() + i;
      Vec<T> sum[4] = {};
      if (accumulate)
        for (int k = 0; k < 4; ++k) sum[k] = load<T>(at + k * lanes);
      for (i64 t = 0; t < taps; ++t) {
        const Vec<T> weight = splat(weights[t]);
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k)
          sum[k] = mul_add(weight, load<T>(sources[t] + i + k * lanes), sum[k]);
      }
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) store(at + k * lanes, sum[k]);
    }
  }

  // Each row's vectors may extend into the next row, which is written afterwards.
  const T* dense_rows(i64 rows) const {
    if (reach[1] == 0) return sums();
    constexpr i64 lanes = kLanes<T>;
    for (i64 r = 0; r < rows; ++r)
      for (i64 i = 0; i < columns.out_w; i += lanes)
        store(dense() + r * columns.out_w + i, load<T>(sums() + r * row_stride + i));
    return dense();
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
