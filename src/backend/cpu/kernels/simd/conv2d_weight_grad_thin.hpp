#pragma once
// The gradient of the weights of thin groups (mainly depthwise), where a matmul would hardly fill
// its vectors: for each tap the sum of G * (X shifted by the tap), as one pass over a plane.
//
// Rows of G have the same distance as those of the padded copy of X, with zeros between them, so a
// tap is one shift of the whole plane. With a stride, each remainder of the pixel number modulo the
// stride has its own copy, in which the stride is one. With few taps nothing is copied.

#include "backend/cpu/kernels/simd/columns.hpp"
#include "backend/cpu/kernels/simd/conv2d_weight_grad_rows.hpp"
#include "backend/cpu/kernels/simd/gemm.hpp"
#include "backend/cpu/kernels/simd/planes.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct ThinWeightGrad {
  static constexpr i64 kChannels = 8;  // of output in a group, at most
  static constexpr int kAtOnce = 9;    // sums in registers, each with an address
  static constexpr i64 kBlock = 4096;  // elements of G at once that stay in the first-level cache
  static constexpr i64 kRoomOfX = kLeftRows * kDepthStride + kTileCols * kDepth;
  static constexpr i64 kRoomOfG = kTileElements / 2, kRoomOfSums = kTileElements / 4;
  static constexpr int lanes = kLanes<T>;
  // If rows are read in place, the sums may use the memory of X's copy.
  static_assert(kRoomOfG + kRowGroup * kRowGroup * kRowTaps * lanes <= kTileElements + kRoomOfX);

  const Columns<T>& columns;
  const Conv2dContext& context;
  const TileScratch<T>& scratch;
  void* const* buffers;
  const i64 *ws, *gs;
  i64 images, group_in, group_out;
  i64 taps, row_stride, elements_of_x;
  i64 rows_at_once = 0;     // 0: does not fit
  i64 reach[2], copies[2];  // distance from the first to the last tap, in pixels of a copy
  RowWeightGrad<T> by_rows;

  ThinWeightGrad(const Columns<T>& all, const Conv2dContext& c, const TileScratch<T>& s,
                 void* const* b, const i64* dims)
      : columns(all),
        context(c),
        scratch(s),
        buffers(b),
        ws(dims + conv2d_dims::w_strides),
        gs(dims + conv2d_dims::y_strides),
        images(dims[conv2d_dims::n]),
        group_in(dims[conv2d_dims::c] / c.groups),
        group_out(dims[conv2d_dims::o] / c.groups),
        taps(group_in * all.kernel_h * all.kernel_w),
        by_rows(all, c, dims) {
    for (int axis = 0; axis < 2; ++axis) {
      const i64 span = ((axis ? all.kernel_w : all.kernel_h) - 1) * c.dilation[axis];
      reach[axis] = span / c.stride[axis];
      copies[axis] = smaller(c.stride[axis], span + 1);
    }
    row_stride = all.out_w + reach[1];
    if (group_out > kChannels || larger(group_out, i64{2}) * taps * lanes > kRoomOfSums) return;
    const i64 of_g = smaller(kRoomOfG - lanes, larger(kBlock, row_stride)) / row_stride;
    const i64 share = kRoomOfX / larger(group_in * copies[0] * copies[1], i64{1});
    const i64 of_x = (share - reach[1] - lanes) / row_stride - reach[0];
    rows_at_once = larger(smaller(smaller(of_g, of_x), larger(all.out_h, i64{1})), i64{0});
    // For one copy of one channel, including what the last vector of the last tap reads.
    elements_of_x = (rows_at_once + reach[0]) * row_stride + reach[1] + lanes;
    Tap t = {};
    for (i64 k = 0; k < taps; ++k, columns.next(t)) shifts()[k] = shift(t);
  }

  bool fits() const { return by_rows.fits || rows_at_once > 0; }
  T* gradient() const { return scratch.tile; }
  T* sums(i64 channel, i64 tap) const {
    return scratch.tile + kRoomOfG + (channel * taps + tap) * lanes;
  }
  // Where each tap starts reading the copies of X: as many numbers as a channel has sums, and each
  // sum has at least two lanes, so they fit.
  i64* shifts() const { return reinterpret_cast<i64*>(scratch.tile + kRoomOfG + kRoomOfSums); }
  i64 shift(const Tap& t) const {
    const i64 y = t.y * context.dilation[0], x = t.x * context.dilation[1];
    return copy_of_x(t.channel, y % context.stride[0], x % context.stride[1]) +
           y / context.stride[0] * row_stride + x / context.stride[1];
  }

  // The gradients of taps [first, last) of all channels of a group.
  void run(i64 group, i64 first, i64 last) const {
    if (by_rows.fits)
      add_rows(group, first, last);
    else
      add_planes(group, first, last);
    for (i64 o = 0; o < group_out; ++o) {
      Tap t = columns.tap(first);
      for (i64 k = first; k < last; ++k, columns.next(t)) {
        T sum = sum_of_lanes<T>(load<T>(sums(o, k)));
        // A zero between rows was multiplied by an infinity.
        if (sum != sum) sum = plain_sum(group, o, t);
        store_row(&sum, 1, context.y, buffers[2],
                  (group * group_out + o) * ws[0] + t.channel * ws[1] + t.y * ws[2] + t.x * ws[3],
                  1);
      }
    }
  }

  void add_rows(i64 group, i64 first, i64 last) const {
    const i64 of_channel = columns.kernel_h * columns.kernel_w;
    for (i64 o = 0; o < group_out; ++o)
      for (i64 c = first / of_channel; c * of_channel < last; ++c)
        by_rows.run(buffers[1], group * group_in + c, group * group_out + o,
                    sums(o, c * of_channel));
  }

  void add_planes(i64 group, i64 first, i64 last) const {
    for (i64 o = 0; o < group_out; ++o)
      for (i64 t = first; t < last; ++t) store(sums(o, t), Vec<T>{});
    for (i64 image = 0; image < images; ++image)
      for (i64 y = 0; y < columns.out_h; y += rows_at_once) {
        const i64 rows = smaller(rows_at_once, columns.out_h - y);
        gather_x(image, group, y, rows);
        for (i64 o = 0; o < group_out; ++o) {
          gather_gradient(image, group * group_out + o, y, rows);
          add_block(rows, first, last, o);
        }
      }
  }

  i64 copy_of_x(i64 channel, i64 copy_y, i64 copy_x) const {
    return ((channel * copies[0] + copy_y) * copies[1] + copy_x) * elements_of_x;
  }

  void gather_x(i64 image, i64 group, i64 y, i64 rows) const {
    const i64* xs = columns.strides;
    const i64 stride = row_stride, filled = (rows + reach[0]) * stride;
    with_storage<T>(context.x, columns.data, [&](auto* base) {
      for (i64 c = 0; c < group_in; ++c)
        for (i64 copy_y = 0; copy_y < copies[0]; ++copy_y)
          for (i64 copy_x = 0; copy_x < copies[1]; ++copy_x) {
            T* dst = scratch.left + copy_of_x(c, copy_y, copy_x);
            const i64 x0 = copy_x - context.pad[1], y0 = y * context.stride[0] - context.pad[0];
            const auto inside = columns.inside_from(x0);
            const i64 at = image * xs[0] + (group * group_in + c) * xs[1];
            auto* plane = base + at;
            if (context.stride[1] == 1 && xs[3] == 1)
              copy_window(dst, stride,
                          Plane{plane, columns.height, columns.width, xs[2], columns.extent - at},
                          {y0 + copy_y, context.stride[0], rows + reach[0], x0});
            else
              for (i64 r = 0; r < rows + reach[0]; ++r) {
                const i64 row = y0 + r * context.stride[0] + copy_y;
                const bool outside = row < 0 || row >= columns.height;
                columns.gather(dst + r * stride, plane + row * xs[2] + x0 * xs[3],
                               context.stride[1] * xs[3], inside.first, outside ? 0 : inside.last,
                               stride);
              }
            for (i64 i = filled; i < elements_of_x; ++i) dst[i] = T{};
          }
    });
  }

  void gather_gradient(i64 image, i64 channel, i64 y, i64 rows) const {
    const i64 stride = row_stride;
    with_storage<T>(context.w, buffers[1], [&](auto* base) {
      const i64 at = image * gs[0] + channel * gs[1];
      const i64 last = (images - 1) * gs[0] + (group_out * context.groups - 1) * gs[1] +
                       (columns.out_h - 1) * gs[2] + columns.out_w - 1;
      auto* plane = base + at;
      if (gs[3] == 1)
        copy_window(gradient(), stride,
                    Plane{plane, columns.out_h, columns.out_w, gs[2], last + 1 - at},
                    {y, 1, rows, 0});
      else
        for (i64 r = 0; r < rows; ++r)
          columns.gather(gradient() + r * stride, plane + (y + r) * gs[2], gs[3], 0, columns.out_w,
                         stride);
    });
    for (i64 i = 0; i < lanes; ++i) gradient()[rows * stride + i] = T{};
  }

  void add_block(i64 rows, i64 first, i64 last, i64 channel) const {
    for (i64 k = first; k < last;) {
      const i64 blocks = ceil_div(last - k, kAtOnce), count = ceil_div(last - k, blocks);
      add_products<kAtOnce>(count, gradient(), shifts() + k, rows * row_stride, sums(channel, k));
      k += count;
    }
  }

  // sums[k] += the products of g with X from shifts[k] on, per vector lane, for `some` <= N taps.
  template <int N>
  void add_products(i64 some, const T* g, const i64* shifts, i64 count, T* sums) const {
    if constexpr (N > 1)
      if (some < N) return add_products<N - 1>(some, g, shifts, count, sums);
    Vec<T> sum[N];
    const T* x[N];
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) sum[k] = load<T>(sums + k * lanes), x[k] = scratch.left + shifts[k];
    for (i64 i = 0; i < count; i += lanes) {
      const Vec<T> value = load<T>(g + i);
#pragma GCC unroll 16
      for (int k = 0; k < N; ++k) sum[k] = mul_add(value, load<T>(x[k] + i), sum[k]);
    }
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) store(sums + k * lanes, sum[k]);
  }

  // Pixel by pixel, without the zeros between rows.
  T plain_sum(i64 group, i64 channel, const Tap& t) const {
    const i64* xs = columns.strides;
    T sum{};
    with_storage<T>(context.x, columns.data, [&](auto* x) {
      with_storage<T>(context.w, buffers[1], [&](auto* g) {
        for (i64 image = 0; image < images; ++image)
          for (i64 y = 0; y < columns.out_h; ++y) {
            const i64 row = columns.input_y(y, t.y);
            if (row < 0 || row >= columns.height) continue;
            for (i64 i = 0; i < columns.out_w; ++i) {
              const i64 col = columns.input_x(i, t.x);
              if (col < 0 || col >= columns.width) continue;
              sum += widen(g[image * gs[0] + (group * group_out + channel) * gs[1] + y * gs[2] +
                             i * gs[3]]) *
                     widen(x[image * xs[0] + (group * group_in + t.channel) * xs[1] + row * xs[2] +
                             col * xs[3]]);
            }
          }
      });
    });
    return sum;
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
