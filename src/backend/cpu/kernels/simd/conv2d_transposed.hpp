#pragma once
// Transposed convolution: results whose positions have the same remainders by the steps read the
// same taps, at neighbouring pixels. So each of these phases is a convolution with step one as in
// conv2d_pixels.hpp, over one copy of some pixels for all phases; their results are interleaved
// before they are finished. No zeros are multiplied.

#include "backend/cpu/kernels/pack_dims.hpp"
#include "backend/cpu/kernels/simd/conv2d_pixels.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

using problems::up_phase;
using problems::up_reach;
using problems::UpPhase;
using problems::UpReach;

// to[channel][tap][tap][panel] for the taps of one phase; zero beyond the last output channel.
// `from`: the weights of the panel's first channel.
template <class T, class S>
void pack_up_phase(T* to, const S* from, const i64* strides, i64 channels, i64 width,
                   const UpPhase (&phase)[2], const i64 (&up)[2]) {
  for (i64 c = 0; c < channels; ++c)
    for (i64 y = 0; y < phase[0].taps; ++y)
      for (i64 x = 0; x < phase[1].taps; ++x, to += kPanel<T>) {
        const S* at = from + c * strides[1] + (phase[0].first_tap + y * up[0]) * strides[2] +
                      (phase[1].first_tap + x * up[1]) * strides[3];
        for (i64 i = 0; i < kPanel<T>; ++i) to[i] = i < width ? widen(at[i * strides[0]]) : T{};
      }
}

template <class T>
struct TransposedConv {
  // Elements of the results of a channel of a panel; they follow the copy of the pixels.
  static constexpr i64 kResults = (kConvImage - kUpImage) / kPanel<T>;
  static_assert(kResults >= problems::kMostUpPhases);

  PixelConv<T>& space;
  const Columns<T>& columns;
  const Conv2dContext& context;
  const ConvSizes& sizes;
  const i64* w_strides;
  UpReach reach[2];
  i64 rows, cols;            // of the results of the first phase, which has the most
  i64 most_rows, most_cols;  // at a time

  TransposedConv(PixelConv<T>& s, const Columns<T>& of, const Conv2dContext& c, const ConvSizes& z,
                 const i64* ws)
      : space(s),
        columns(of),
        context(c),
        sizes(z),
        w_strides(ws),
        reach{up_reach(c.up[0], c.pad[0], of.kernel_h), up_reach(c.up[1], c.pad[1], of.kernel_w)},
        rows(ceil_div(of.out_h, c.up[0])),
        cols(ceil_div(of.out_w, c.up[1])) {
    const i64 most = smaller(kConvPixels, kResults / (c.up[0] * c.up[1]));
    most_cols = smaller(cols, most);
    while (most_cols > 1 && sizes.in * copied(0, 1) * copied(1, most_cols) > kUpImage)
      most_cols = (most_cols + 1) / 2;
    most_rows = smaller(rows, most / most_cols);
    while (most_rows > 1 && sizes.in * copied(0, most_rows) * copied(1, most_cols) > kUpImage)
      --most_rows;
  }

  // Rows or columns of pixels that this many results of each phase read.
  i64 copied(int axis, i64 count) const { return count + reach[axis].last - reach[axis].first; }
  i64 windows() const { return ceil_div(rows, most_rows) * ceil_div(cols, most_cols); }
  T* results() const { return space.image + kUpImage; }

  // Results of all phases in rows [y, y + rows) and columns [x, x + cols) of each.
  struct Window {
    i64 y, rows, x, cols;
  };
  Window window(i64 number) const {
    const i64 across = ceil_div(cols, most_cols);
    const i64 y = number / across * most_rows, x = number % across * most_cols;
    return {y, smaller(most_rows, rows - y), x, smaller(most_cols, cols - x)};
  }

  // Windows [first, last) for output channels [row0, row1), whole panels except for the last.
  // finish(values, output channel, column, count).
  template <class Finish>
  void run(i64 plane, const MatrixView& w, i64 row0, i64 row1, i64 first, i64 last,
           const Finish& finish) {
    for (i64 number = first; number < last; ++number) {
      const Window at = window(number);
      space.pad_columns(plane, at.y + reach[0].first, copied(0, at.rows), at.x + reach[1].first,
                        copied(1, at.cols));
      for (i64 row = row0; row < row1; row += kPanel<T>) {
        const i64 width = smaller(kPanel<T>, row1 - row);
        sum_phases(at, w, row, width);
        finish_window(at, row, width, finish);
      }
    }
  }

  void sum_phases(const Window& at, const MatrixView& w, i64 row, i64 width) {
    const i64 depth = sizes.depth();
    const T* packed = static_cast<const T*>(w.data) + w.offset + row * depth;
    for (i64 y = 0; y < context.up[0]; ++y)
      for (i64 x = 0; x < context.up[1]; ++x) {
        const UpPhase phase[2] = {up_phase(y, context.up[0], context.pad[0], columns.kernel_h),
                                  up_phase(x, context.up[1], context.pad[1], columns.kernel_w)};
        space.depth = sizes.in * phase[0].taps * phase[1].taps;
        const T* panel = packed;
        if (!context.w_packed) {
          pack(w, row, width, phase);
          panel = space.weights;
        }
        packed += space.depth * kPanel<T>;
        sum_phase(at, phase, panel, width);
        place(at, y, x, width);
      }
  }

  void pack(const MatrixView& w, i64 row, i64 width, const UpPhase (&phase)[2]) const {
    with_storage<T>(w.dtype, w.data, [&](auto* base) {
      pack_up_phase(space.weights, base + w.offset + row * w_strides[0], w_strides, sizes.in, width,
                    phase, context.up);
    });
  }

  // space.finished[channel][kConvPixels]
  void sum_phase(const Window& at, const UpPhase (&phase)[2], const T* panel, i64 width) const {
    const i64 count = at.rows * at.cols, step = copied(1, at.cols);
    const i64 plane = copied(0, at.rows) * step;
    if (space.depth == 0) {
      for (i64 i = 0; i < width * kConvPixels; ++i) space.finished[i] = T{};
      return;
    }
    i64 k = 0;
    for (i64 c = 0; c < sizes.in; ++c)
      for (i64 y = 0; y < phase[0].taps; ++y)
        for (i64 x = 0; x < phase[1].taps; ++x)
          space.offsets[k++] = c * plane + (phase[0].shift - y - reach[0].first) * step +
                               phase[1].shift - x - reach[1].first;
    const T* pixels[kConvPixels];
    for (i64 y = 0, i = 0; y < at.rows; ++y)
      for (i64 x = 0; x < at.cols; ++x) pixels[i++] = space.image + y * step + x;
    space.multiply_pixels(pixels, count, panel, width);
    pack_contiguous_cols(space.finished, kConvPixels, width, count, space.tile, kPanel<T>);
  }

  // Rows and columns of the result that a window covers.
  i64 height(const Window& at) const {
    return smaller(at.rows * context.up[0], columns.out_h - at.y * context.up[0]);
  }
  i64 width(const Window& at) const {
    return smaller(at.cols * context.up[1], columns.out_w - at.x * context.up[1]);
  }

  // results()[channel][kResults]: rows of the window.
  void place(const Window& at, i64 phase_y, i64 phase_x, i64 channels) const {
    const i64 across = width(at), step = context.up[1];
    const i64 count_y = ceil_div(height(at) - phase_y, context.up[0]);
    const i64 count_x = ceil_div(across - phase_x, step);
    for (i64 c = 0; c < channels; ++c)
      for (i64 y = 0; y < count_y; ++y) {
        const T* from = space.finished + c * kConvPixels + y * at.cols;
        T* to = results() + c * kResults + (y * context.up[0] + phase_y) * across + phase_x;
        for (i64 x = 0; x < count_x; ++x) to[x * step] = from[x];
      }
  }

  template <class Finish>
  void finish_window(const Window& at, i64 row, i64 channels, const Finish& finish) const {
    const i64 down = height(at), across = width(at);
    const i64 col = at.y * context.up[0] * columns.out_w + at.x * context.up[1];
    for (i64 c = 0; c < channels; ++c) {
      const T* values = results() + c * kResults;
      if (across == columns.out_w) {
        finish(values, row + c, col, down * across);
        continue;
      }
      for (i64 y = 0; y < down; ++y)
        finish(values + y * across, row + c, col + y * columns.out_w, across);
    }
  }
};

// Panels [begin, end) of weights: [panel][phase][channel][tap][tap][panel]. Dims: conv_pack_dims.
template <class T, class S>
void pack_up_weights(const S* weights, T* packed, const i64* dims, i64 begin, i64 end) {
  namespace at = conv_pack_dims;
  const i64* strides = dims + at::w_strides;
  const i64 up[2] = {dims[at::up], dims[at::up + 1]};
  const i64 depth = dims[at::c] * dims[at::kh] * dims[at::kw];
  for (i64 unit = begin; unit < end; ++unit) {
    const i64 first = unit * kPanel<T>, width = smaller(kPanel<T>, dims[at::o] - first);
    T* to = packed + first * depth;
    for (i64 y = 0; y < up[0]; ++y)
      for (i64 x = 0; x < up[1]; ++x) {
        const UpPhase phase[2] = {up_phase(y, up[0], dims[at::pad], dims[at::kh]),
                                  up_phase(x, up[1], dims[at::pad + 1], dims[at::kw])};
        pack_up_phase(to, weights + first * strides[0], strides, dims[at::c], width, phase, up);
        to += dims[at::c] * phase[0].taps * phase[1].taps * kPanel<T>;
      }
  }
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
