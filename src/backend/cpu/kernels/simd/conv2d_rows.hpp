#pragma once
// Convolution of narrow groups (mainly depthwise) with few taps, with a row of the image in a
// vector: it is loaded in place, once for each column of taps, and added to all result rows it
// contributes to while those are in registers.

#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/simd/columns.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"
#include "backend/cpu/kernels/simd/lane_range.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <int N>
struct Constant {
  static constexpr int value = N;
};

// fn(kernel size, stride, bytes of a vector) as constants.
template <class T, class Fn>
GEX_INLINE void with_row_form(const Columns<T>& columns, const Fn& fn) {
  const auto with_bytes = [&](auto size, auto step) {
    if constexpr (has_half<T>)
      if (columns.out_w <= kLanes<T> / 2) return fn(size, step, Constant<kVectorBytes / 2>{});
    fn(size, step, Constant<kVectorBytes>{});
  };
  const auto with_step = [&](auto size) {
    if (columns.context.stride[0] == 1)
      with_bytes(size, Constant<1>{});
    else
      with_bytes(size, Constant<2>{});
  };
  if (columns.kernel_h == 3)
    with_step(Constant<3>{});
  else
    with_step(Constant<5>{});
}

// The weights for a row of taps: in registers for a single channel, else in memory.
template <class V, int K>
struct WeightsOfOne {
  typename V::type values[K * K];

  template <class T>
  GEX_INLINE explicit WeightsOfOne(const T* weights) {
#pragma GCC unroll 32
    for (int k = 0; k < K * K; ++k) values[k] = V::splat(weights[k]);
  }
  GEX_INLINE typename V::type at(i64 /*channel*/, int tap) const { return values[tap]; }
};
template <class V, int K, class T>
struct WeightsOfSome {
  const T* weights;

  GEX_INLINE typename V::type at(i64 channel, int tap) const {
    return V::splat(weights[channel * K * K + tap]);
  }
};

template <class T>
struct RowConv {
  static constexpr i64 kBlock = 4096;  // finished elements that stay in the first-level cache
  static constexpr i64 kWeights = kRowGroup * kRowGroup * kRowTaps;
  static_assert(kWeights + kRowPixels + kPanel<T> <= kTileElements);

  const Columns<T>& columns;
  const Conv2dContext& context;
  const TileScratch<T>& scratch;
  i64 group_in, group_out, rows_at_once;

  RowConv(const Columns<T>& all, const Conv2dContext& c, const TileScratch<T>& s, i64 in, i64 out)
      : columns(all),
        context(c),
        scratch(s),
        group_in(in),
        group_out(out),
        rows_at_once(larger(kBlock / larger(all.out_w, i64{1}), i64{1})) {}

  T* weights() const { return scratch.tile; }
  T* finished() const { return scratch.tile + kWeights; }

  // As in DirectConv.
  template <class Finish>
  void run(i64 plane, const MatrixView& w, const i64* w_strides, i64 col0, i64 col1,
           const Finish& finish) const {
    const i64 out_w = columns.out_w;
    widen_weights(w, w_strides);
    // Avoids the division, which is slow, because mostly whole planes are requested.
    const i64 end = col1 == columns.out_h * out_w ? columns.out_h : ceil_div(col1, out_w);
    for (i64 y = col0 == 0 ? 0 : col0 / out_w; y < end; y += rows_at_once) {
      const i64 rows = smaller(rows_at_once, end - y);
      const i64 first = larger(col0, y * out_w), last = smaller(col1, (y + rows) * out_w);
      for (i64 o = 0; o < group_out; ++o) {
        with_storage<T>(context.x, columns.data, [&](auto* base) {
          with_row_form(columns, [&](auto size, auto step, auto bytes) {
            sum_rows<size.value, step.value, bytes.value>(
                base + plane, weights() + o * group_in * size.value * size.value, y, rows);
          });
        });
        finish(finished() + first - y * out_w, o, first, last - first);
      }
    }
  }

  void widen_weights(const MatrixView& w, const i64* strides) const {
    T* to = weights();
    with_storage<T>(w.dtype, w.data, [&](auto* base) {
      for (i64 o = 0; o < group_out; ++o)
        for (i64 c = 0; c < group_in; ++c)
          for (i64 y = 0; y < columns.kernel_h; ++y) {
            const auto* row = base + w.offset + o * strides[0] + c * strides[1] + y * strides[2];
            for (i64 x = 0; x < columns.kernel_w; ++x) *to++ = widen(row[x * strides[3]]);
          }
    });
  }

  template <int K, int kStep, int kBytes, class S>
  void sum_rows(const S* plane, const T* weights, i64 y, i64 rows) const {
    using V = RowVec<T, kBytes>;
    if (group_in == 1)
      sum_columns<V, K, kStep, kBytes>(plane, i64{1}, WeightsOfOne<V, K>(weights), y, rows);
    else
      sum_columns<V, K, kStep, kBytes>(plane, group_in, WeightsOfSome<V, K, T>{weights}, y, rows);
  }

  // The last columns first: a vector that extends into the next row is overwritten there.
  template <class V, int K, int kStep, int kBytes, class S, class Weights>
  GEX_INLINE void sum_columns(const S* plane, i64 channels, const Weights& w, i64 y,
                              i64 rows) const {
    for (i64 x = round_up(columns.out_w, V::lanes) - V::lanes; x >= 0; x -= V::lanes) {
      const i64 from = columns.input_x(x, 0);
      const TapColumns<T, K, kStep, kBytes> reads(-from, columns.width - from, V::lanes);
      if constexpr (kStep == 1)
        roll<V>(plane + from, channels, reads, w, y, rows, finished() + x);
      else
        step_over<V>(plane + from, channels, reads, w, y, rows, finished() + x);
    }
  }

  // sum[j] belongs to row y + j, where y is the first row that the image's row contributes to.
  template <class V, int K, int kBytes, class S, class Weights>
  GEX_INLINE void roll(const S* image, i64 channels, const TapColumns<T, K, 1, kBytes>& reads,
                       const Weights& w, i64 y, i64 rows, T* out) const {
    typename V::type sum[K] = {};
    const i64 first = columns.input_y(y, 0), height = columns.height, out_w = columns.out_w;
    const i64 stride = columns.strides[2], channel_stride = columns.strides[1];
    for (i64 r = 0; r < rows + K - 1; ++r) {
      if (first + r >= 0 && first + r < height) {
        const S* at = image + (first + r) * stride;
        for (i64 c = 0; c < channels; ++c, at += channel_stride) {
          typename V::type tap[K];
          reads.load(at, tap);
#pragma GCC unroll 8
          for (int x = 0; x < K; ++x)
#pragma GCC unroll 8
            for (int j = 0; j < K; ++j)
              sum[j] = mul_add(w.at(c, (K - 1 - j) * K + x), tap[x], sum[j]);
        }
      }
      if (r >= K - 1) {
        V::store(out, sum[0]);
        out += out_w;
      }
#pragma GCC unroll 8
      for (int j = 0; j + 1 < K; ++j) sum[j] = sum[j + 1];
      sum[K - 1] = typename V::type{};
    }
  }

  template <class V, int K, int kBytes, class S, class Weights>
  GEX_INLINE void step_over(const S* image, i64 channels, const TapColumns<T, K, 2, kBytes>& reads,
                            const Weights& w, i64 y, i64 rows, T* out) const {
    const i64 first = columns.input_y(y, 0), height = columns.height, out_w = columns.out_w;
    const i64 stride = columns.strides[2], channel_stride = columns.strides[1];
    for (i64 r = 0; r < rows; ++r, out += out_w) {
      typename V::type sum = {};
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) {
        const i64 row = first + 2 * r + k;
        if (row < 0 || row >= height) continue;
        const S* at = image + row * stride;
        for (i64 c = 0; c < channels; ++c, at += channel_stride) {
          typename V::type tap[K];
          reads.load(at, tap);
#pragma GCC unroll 8
          for (int x = 0; x < K; ++x) sum = mul_add(w.at(c, k * K + x), tap[x], sum);
        }
      }
      V::store(out, sum);
    }
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
