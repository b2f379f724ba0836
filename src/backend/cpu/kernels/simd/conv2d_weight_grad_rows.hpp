#pragma once
// The gradient of the weights of narrow groups (mainly depthwise) with few taps, in the form of
// conv2d_rows.hpp: rows of X and of G are read in place, and the sums of all taps stay in registers
// through all images.

#include "backend/cpu/kernels/simd/conv2d_rows.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct RowWeightGrad {
  const Columns<T>& columns;
  const Conv2dContext& context;
  const i64* gs;
  i64 images;
  bool fits;

  RowWeightGrad(const Columns<T>& all, const Conv2dContext& c, const i64* dims)
      : columns(all),
        context(c),
        gs(dims + conv2d_dims::y_strides),
        images(dims[conv2d_dims::n]),
        fits(conv_sizes(c.x, c.stride, c.dilation, c.pad, c.up, c.groups, false, dims)
                 .can(Form::rows) &&
             c.x == c.w && gs[3] == 1) {}

  // sums[tap] = the products of a channel of X with one of G, per vector lane.
  void run(const void* gradient, i64 in_channel, i64 out_channel, T* sums) const {
    with_storage<T>(context.x, columns.data, [&](auto* x) {
      using S = decltype(x);
      const S g = static_cast<S>(gradient);
      with_row_form(columns, [&](auto size, auto step, auto bytes) {
        add_images<size.value, step.value, bytes.value>(x + in_channel * columns.strides[1],
                                                        g + out_channel * gs[1], sums);
      });
    });
  }

  template <int K, int kStep, int kBytes, class S>
  void add_images(const S* x, const S* g, T* sums) const {
    using V = RowVec<T, kBytes>;
    constexpr i64 lanes = V::lanes;
    typename V::type sum[K * K] = {};
    TapColumns<T, K, kStep, kBytes> reads;
    LaneRange<T, kBytes> kept;
    const i64 out_w = columns.out_w;
    for (i64 image = 0; image < images; ++image, x += columns.strides[0], g += gs[0])
      for (i64 col = 0; col < out_w; col += lanes) {
        const i64 from = columns.input_x(col, 0), count = out_w - col;
        if (image == 0 || out_w > lanes) {
          reads = {-from, columns.width - from, smaller(count, lanes)};
          kept = {0, count};
        }
        if constexpr (kStep == 1)
          roll<V>(x + from, reads, g + col, kept, sum);
        else
          step_over<V>(x + from, reads, g + col, kept, sum);
      }
#pragma GCC unroll 32
    for (int k = 0; k < K * K; ++k) {
      store(sums + k * kLanes<T>, Vec<T>{});
      V::store(sums + k * kLanes<T>, sum[k]);
    }
  }

  // rows[k] is the row of G whose k-th tap reads the row of X.
  template <class V, int K, int kBytes, class S>
  GEX_INLINE void roll(const S* x, const TapColumns<T, K, 1, kBytes>& reads, const S* g,
                       const LaneRange<T, kBytes>& kept, typename V::type (&sum)[K * K]) const {
    const i64 out_h = columns.out_h, height = columns.height, pad = context.pad[0];
    const i64 x_stride = columns.strides[2], g_stride = gs[2];
    typename V::type rows[K] = {};
    for (i64 r = 0; r < out_h + K - 1; ++r) {
#pragma GCC unroll 8
      for (int k = K - 1; k > 0; --k) rows[k] = rows[k - 1];
      rows[0] = r < out_h ? kept.load(g + r * g_stride) : typename V::type{};
      if (r < pad || r - pad >= height) continue;
      typename V::type tap[K];
      reads.load(x + (r - pad) * x_stride, tap);
#pragma GCC unroll 8
      for (int i = 0; i < K; ++i)
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k) sum[k * K + i] = mul_add(rows[k], tap[i], sum[k * K + i]);
    }
  }

  template <class V, int K, int kBytes, class S>
  GEX_INLINE void step_over(const S* x, const TapColumns<T, K, 2, kBytes>& reads, const S* g,
                            const LaneRange<T, kBytes>& kept,
                            typename V::type (&sum)[K * K]) const {
    const i64 out_h = columns.out_h, height = columns.height, pad = context.pad[0];
    const i64 x_stride = columns.strides[2], g_stride = gs[2];
    for (i64 y = 0; y < out_h; ++y) {
      const auto values = kept.load(g + y * g_stride);
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) {
        const i64 row = 2 * y - pad + k;
        if (row < 0 || row >= height) continue;
        typename V::type tap[K];
        reads.load(x + row * x_stride, tap);
#pragma GCC unroll 8
        for (int i = 0; i < K; ++i) sum[k * K + i] = mul_add(values, tap[i], sum[k * K + i]);
      }
    }
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
