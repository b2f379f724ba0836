#pragma once
// Depthwise convolution with a channel in each lane: planes of one vector's worth of channels are
// transposed into a padded image of vectors, so that kernels of any size, stride and dilation run
// at the same speed, and planes of a few pixels fill vectors.

#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/simd/columns.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"
#include "backend/cpu/kernels/simd/lane_range.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// The geometry of a kernel over an image of vectors, in elements.
struct ChannelTaps {
  i64 height, width, row_step, col_step, pixel_step;
};

// out[P vectors] = sums over all taps for P adjacent pixels. kStep: vectors between their inputs,
// 0: as in `taps`.
template <class T, int P, int kStep>
void channel_kernel(const ChannelTaps& taps, const T* __restrict image, const T* __restrict weights,
                    T* __restrict out) {
  constexpr int lanes = kLanes<T>;
  const i64 step = kStep > 0 ? i64{kStep} * lanes : taps.pixel_step;
  Vec<T> acc[P] = {};
  for (i64 y = 0; y < taps.height; ++y) {
    const T* from = image + y * taps.row_step;
    for (i64 x = 0; x < taps.width; ++x, from += taps.col_step, weights += lanes) {
      const Vec<T> weight = load<T>(weights);
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) acc[p] = mul_add(load<T>(from + p * step), weight, acc[p]);
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) store(out + p * lanes, acc[p]);
}

template <class T>
using ChannelKernel = void (*)(const ChannelTaps&, const T*, const T*, T*);

template <class T, int kStep, int... P>
GEX_INLINE ChannelKernel<T> channel_kernel_of(int pixels) {
  static constexpr ChannelKernel<T> table[] = {&channel_kernel<T, P, kStep>...};
  return table[pixels - 1];
}
template <class T, int kStep>
GEX_INLINE ChannelKernel<T> channel_kernel_for(int pixels) {
  if constexpr (kMicroRows == 12)
    return channel_kernel_of<T, kStep, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>(pixels);
  else
    return channel_kernel_of<T, kStep, 1, 2, 3, 4, 5, 6>(pixels);
}

// rows[j][i] becomes rows[i][j].
template <class T>
GEX_INLINE void transpose_vectors(Vec<T> (&rows)[kLanes<T>]) {
  constexpr int lanes = kLanes<T>;
  transpose_step<T, 1>(rows);
  if constexpr (lanes > 2) transpose_step<T, 2>(rows);
  if constexpr (lanes > 4) transpose_step<T, 4>(rows);
  if constexpr (lanes > 8) transpose_step<T, 8>(rows);
}

template <class T>
struct ChannelConv {
  static constexpr int kWidth = kLanes<T>;
  static constexpr i64 kRoomOfX = kLeftRows * kDepthStride + kTileCols * kDepth;
  // The tile's memory is divided into thirds: sums, finished planes, weights.
  static constexpr i64 kRoom = kTileElements / 3;
  static_assert(kChannelPixels * kWidth <= kRoomOfX && kChannelPixels * kWidth <= kRoom - kWidth);
  static_assert(kChannelTaps * kWidth <= kRoom);

  const Columns<T>& columns;
  const Conv2dContext& context;
  const ConvSizes& sizes;
  const TileScratch<T>& scratch;
  const i64* w_strides;
  i64 planes_of_image;

  T* image() const { return scratch.left; }
  T* sums() const { return scratch.tile; }
  T* finished() const { return scratch.tile + kRoom; }
  T* weights() const { return scratch.tile + 2 * kRoom; }

  // Planes [first, last), counted over all images. finish(values, plane, planes, pixel, pixels):
  // the same pixels of adjacent planes, one plane after the other.
  template <class Finish>
  void run(const MatrixView& w, i64 first, i64 last, const Finish& finish) const {
    const i64 rows_at_once = smaller(sizes.channel_rows(), columns.out_h);
    for (i64 plane = first; plane < last; plane += kWidth) {
      const i64 count = smaller(i64{kWidth}, last - plane);
      load_weights(w, plane, count);
      for (i64 y = 0; y < columns.out_h; y += rows_at_once) {
        const i64 rows = smaller(rows_at_once, columns.out_h - y);
        load_planes(plane, count, y, rows);
        sum(rows);
        const i64 pixels = rows * columns.out_w;
        store_planes(count, pixels);
        finish(finished(), plane, count, y * columns.out_w, pixels);
      }
    }
  }

  // weights()[tap][lane]
  void load_weights(const MatrixView& w, i64 plane, i64 count) const {
    const i64 taps = columns.kernel_h * columns.kernel_w;
    const bool dense = w_strides[3] == 1 && w_strides[2] == columns.kernel_w;
    with_storage<T>(w.dtype, w.data, [&](auto* base) {
      decltype(base) of[kWidth];
      for (i64 j = 0; j < kWidth; ++j)
        of[j] = base + w.offset + (plane + smaller(j, count - 1)) % planes_of_image * w_strides[0];
      if (dense) return transpose_in(of, taps, [&](i64 tap) { return weights() + tap * kWidth; });
      for (i64 tap = 0; tap < taps; ++tap)
        for (i64 j = 0; j < kWidth; ++j)
          weights()[tap * kWidth + j] = widen(
              of[j][tap / columns.kernel_w * w_strides[2] + tap % columns.kernel_w * w_strides[3]]);
    });
  }

  // Elements 0 .. size - 1 of each lane's memory: element i of all lanes goes to place(i).
  template <class S, class Place>
  GEX_INLINE static void transpose_in(const S* const (&of)[kWidth], i64 size, const Place& place) {
    Vec<T> rows[kWidth];
    for (i64 i = 0; i < size; i += kWidth) {
      const i64 count = smaller(i64{kWidth}, size - i);
      if (count == kWidth) {
#pragma GCC unroll 16
        for (int j = 0; j < kWidth; ++j) rows[j] = load<T>(of[j] + i);
      } else {
        const LaneRange<T, kVectorBytes> some(0, count);
        for (int j = 0; j < kWidth; ++j) rows[j] = some.load(of[j] + i);
      }
      transpose_vectors<T>(rows);
      for (i64 k = 0; k < count; ++k) store(place(i + k), rows[k]);
    }
  }

  // image()[row][column][lane] for rows [y, y + rows) of the result, zero around the planes.
  void load_planes(i64 plane, i64 count, i64 y, i64 rows) const {
    const i64 width = sizes.reach_x(), before = smaller(context.pad[1], width);
    const i64 inside = larger(i64{0}, smaller(columns.width, width - before));
    const i64 first = columns.input_y(y, 0), end = first + sizes.reach_y(rows);
    const i64 y0 = smaller(larger(i64{0}, first), columns.height);
    const i64 y1 = larger(y0, smaller(columns.height, end));
    for (i64 r = first; r < end; ++r) {
      T* row = image() + (r - first) * width * kWidth;
      const bool outside = r < 0 || r >= columns.height;
      for (i64 x = 0; x < (outside ? width : before); ++x) store(row + x * kWidth, Vec<T>{});
      for (i64 x = before + inside; x < width; ++x) store(row + x * kWidth, Vec<T>{});
    }
    const i64* s = columns.strides;
    with_storage<T>(context.x, columns.data, [&](auto* base) {
      decltype(base) of[kWidth];
      for (i64 j = 0; j < kWidth; ++j) {
        const i64 at = plane + smaller(j, count - 1);
        of[j] = base + at / planes_of_image * s[0] + at % planes_of_image * s[1] + y0 * s[2];
      }
      T* to = image() + ((y0 - first) * width + before) * kWidth;
      if (inside == columns.width) {
        // Rows are adjacent: as one run, with a step at the end of each.
        i64 x = 0;
        transpose_in(of, (y1 - y0) * columns.width, [&](i64) {
          T* at = to;
          ++x;
          to += kWidth;
          if (x == columns.width) to += (width - columns.width) * kWidth, x = 0;
          return at;
        });
        return;
      }
      for (i64 r = y0; r < y1; ++r, to += width * kWidth) {
        transpose_in(of, inside, [&](i64 x) { return to + x * kWidth; });
        for (i64 j = 0; j < kWidth; ++j) of[j] += s[2];
      }
    });
  }

  void sum(i64 rows) const {
    const i64 width = sizes.reach_x() * kWidth, out_w = columns.out_w;
    const ChannelTaps taps = {columns.kernel_h, columns.kernel_w, context.dilation[0] * width,
                              context.dilation[1] * kWidth, context.stride[1] * kWidth};
    const i64 groups = ceil_div(out_w, kMicroRows);
    for (i64 g = 0; g < groups; ++g) {
      const i64 first = out_w * g / groups;
      const int count = static_cast<int>(out_w * (g + 1) / groups - first);
      const ChannelKernel<T> kernel = context.stride[1] == 1   ? channel_kernel_for<T, 1>(count)
                                      : context.stride[1] == 2 ? channel_kernel_for<T, 2>(count)
                                                               : channel_kernel_for<T, 0>(count);
      for (i64 r = 0; r < rows; ++r)
        kernel(taps, image() + r * context.stride[0] * width + first * taps.pixel_step, weights(),
               sums() + (r * out_w + first) * kWidth);
    }
  }

  // finished()[lane][pixel]. The last pixels first, and lanes in order: vectors that extend into
  // the next plane are overwritten there.
  void store_planes(i64 count, i64 pixels) const {
    for (i64 i = round_up(pixels, kWidth) - kWidth; i >= 0; i -= kWidth) {
      Vec<T> rows[kWidth];
#pragma GCC unroll 16
      for (int k = 0; k < kWidth; ++k) rows[k] = load<T>(sums() + (i + k) * kWidth);
      transpose_vectors<T>(rows);
      for (i64 j = 0; j < count; ++j) store(finished() + j * pixels + i, rows[j]);
    }
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
