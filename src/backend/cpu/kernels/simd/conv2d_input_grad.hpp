#pragma once
// The gradient of the input of a strided convolution of narrow groups, in the form of
// conv2d_rows.hpp. Even and odd rows and columns of the result are sums over different taps, so a
// row of G is added to four sums of every other pixel, which are interleaved when they are stored:
// no inserted zeros are multiplied.

#include "backend/cpu/kernels/simd/conv2d_rows.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// Which taps apply to which rows (or columns) of G along one axis of a kernel with K taps, K odd:
// result 2*i + side uses tap kFirst - 2*m + side, if it exists, at row i + first + m.
template <int K, bool kOddPad>
struct Meetings {
  static constexpr int count = (K + 1) / 2;
  static constexpr int kFirst = kOddPad ? K - 2 : K - 1;

  static constexpr int tap(int m, int side) { return kFirst - 2 * m + side; }
  static constexpr bool exists(int m, int side) { return tap(m, side) >= 0 && tap(m, side) < K; }
  static GEX_INLINE i64 first(i64 pad) { return (pad - kFirst) / 2; }
};

template <class T>
struct ConvInputGrad {
  static constexpr i64 kBlock = 4096;  // finished elements that stay in the first-level cache
  static constexpr i64 kWeights = kRowGroup * kRowTaps;
  static_assert(kWeights + 2 * kRowPixels + 2 * kPanel<T> <= kTileElements);

  const Conv2dContext& context;
  void* const* buffers;
  TileScratch<T> scratch;
  i64 channels, group_in, group_out, taps, height, width, g_height, g_width;
  const i64 *xs, *ws, *gs;

  ConvInputGrad(const Conv2dContext& c, void* const* b, const i64* d, std::byte* s)
      : context(c),
        buffers(b),
        scratch(tile_scratch<T>(s)),
        channels(d[conv2d_dims::c]),
        group_in(d[conv2d_dims::c] / c.groups),
        group_out(d[conv2d_dims::o] / c.groups),
        taps(d[conv2d_dims::kh]),
        height(d[conv2d_dims::h]),
        width(d[conv2d_dims::w]),
        g_height(d[conv2d_dims::oh]),
        g_width(d[conv2d_dims::ow]),
        xs(d + conv2d_dims::x_strides),
        ws(d + conv2d_dims::w_strides),
        gs(d + conv2d_dims::y_strides) {}

  T* weights() const { return scratch.tile; }
  T* finished() const { return scratch.tile + kWeights; }

  void run(i64 begin, i64 end) const {
    with_storage<T>(context.y, buffers[0], [&](auto* g) {
      with_form([&](auto size, auto row_pad, auto col_pad, auto bytes) {
        for (i64 plane = begin; plane < end; ++plane)
          run_plane<Meetings<size.value, row_pad.value != 0>,
                    Meetings<size.value, col_pad.value != 0>, size.value, bytes.value>(
              g, plane / channels, plane % channels);
      });
    });
  }

  // fn(kernel size, odd padding of rows and of columns, bytes of a vector) as constants.
  template <class Fn>
  GEX_INLINE void with_form(const Fn& fn) const {
    const auto with_bytes = [&](auto size, auto row_pad, auto col_pad) {
      if constexpr (has_half<T>)
        if (width <= kLanes<T>) return fn(size, row_pad, col_pad, Constant<kVectorBytes / 2>{});
      fn(size, row_pad, col_pad, Constant<kVectorBytes>{});
    };
    const auto with_columns = [&](auto size, auto row_pad) {
      if (context.pad[1] % 2 == 0)
        with_bytes(size, row_pad, Constant<0>{});
      else
        with_bytes(size, row_pad, Constant<1>{});
    };
    const auto with_rows = [&](auto size) {
      if (context.pad[0] % 2 == 0)
        with_columns(size, Constant<0>{});
      else
        with_columns(size, Constant<1>{});
    };
    if (taps == 3)
      with_rows(Constant<3>{});
    else
      with_rows(Constant<5>{});
  }

  template <class Rows, class Cols, int K, int kBytes, class S>
  GEX_INLINE void run_plane(const S* g, i64 image, i64 channel) const {
    const i64 group = channel / group_in;
    widen_weights(group * group_out * ws[0] + channel % group_in * ws[1]);
    const S* planes = g + image * gs[0] + group * group_out * gs[1];
    const i64 base = image * xs[0] + channel * xs[1];
    const i64 rows_at_once = larger(kBlock / width / 2 * 2, i64{2});
    const bool finite = has_finite_weights();
    for (i64 y = 0; y < height; y += rows_at_once) {
      const i64 rows = smaller(rows_at_once, height - y);
      if (!finite)
        sum_one_by_one(planes, y, rows);
      else if (group_out == 1)
        sum_rows<Rows, Cols, kBytes>(planes, WeightsOfOne<RowVec<T, kBytes>, K>(weights()), y,
                                     rows);
      else
        sum_rows<Rows, Cols, kBytes>(planes, WeightsOfSome<RowVec<T, kBytes>, K, T>{weights()}, y,
                                     rows);
      store_rows(base + y * xs[2], rows);
    }
  }

  GEX_NOINLINE void widen_weights(i64 offset) const {
    T* to = weights();
    with_storage<T>(context.w, buffers[1], [&](auto* base) {
      for (i64 o = 0; o < group_out; ++o)
        for (i64 y = 0; y < taps; ++y) {
          const auto* row = base + offset + o * ws[0] + y * ws[2];
          for (i64 x = 0; x < taps; ++x) *to++ = widen(row[x * ws[3]]);
        }
    });
  }

  GEX_NOINLINE bool has_finite_weights() const {
    T sum{};
    for (i64 i = 0; i < group_out * taps * taps; ++i) sum += weights()[i] * T{};
    return sum == T{};
  }

  // Vectors read zeros beside a row of G; a zero times a NaN or infinite weight is not zero, so
  // those weights take this scalar path.
  template <class S>
  GEX_NOINLINE void sum_one_by_one(const S* planes, i64 y, i64 rows) const {
    for (i64 at = 0; at < rows * width; ++at) {
      const i64 row = y + at / width + context.pad[0], col = at % width + context.pad[1];
      T sum{};
      for (i64 i = 0; i < group_out * taps * taps; ++i) {
        const i64 down = row - i / taps % taps, right = col - i % taps;
        if (down < 0 || right < 0 || down % 2 != 0 || right % 2 != 0) continue;
        if (down / 2 >= g_height || right / 2 >= g_width) continue;
        const S* plane = planes + i / (taps * taps) * gs[1];
        sum += weights()[i] * widen(plane[down / 2 * gs[2] + right / 2]);
      }
      finished()[at] = sum;
    }
  }

  // The last columns first: vectors that extend into the next row are overwritten there.
  template <class Rows, class Cols, int kBytes, class S, class Weights>
  void sum_rows(const S* planes, const Weights& w, i64 y, i64 rows) const {
    using V = RowVec<T, kBytes>;
    const i64 first_row = y / 2 + Rows::first(context.pad[0]);
    for (i64 x = round_up(width, 2 * V::lanes) - 2 * V::lanes; x >= 0; x -= 2 * V::lanes) {
      const i64 from = x / 2 + Cols::first(context.pad[1]);
      const TapColumns<T, Cols::count, 1, kBytes> reads(-from, g_width - from, V::lanes);
      T* out = finished() + x;
      for (i64 r = 0; r < rows; r += 2, out += 2 * width) {
        typename V::type sum[2][2] = {};
#pragma GCC unroll 8
        for (int m = 0; m < Rows::count; ++m) {
          const i64 row = first_row + r / 2 + m;
          if (row < 0 || row >= g_height) continue;
          const S* at = planes + row * gs[2] + from;
          for (i64 o = 0; o < group_out; ++o, at += gs[1])
            add_row<Rows, Cols, V>(reads, at, w, o, m, sum);
        }
        store_pair<V>(out, sum[0]);
        if (r + 1 < rows) store_pair<V>(out + width, sum[1]);
      }
    }
  }

  template <class Rows, class Cols, class V, class Reads, class S, class Weights>
  GEX_INLINE static void add_row(const Reads& reads, const S* row, const Weights& w, i64 channel,
                                 int m, typename V::type (&sum)[2][2]) {
    constexpr int K = 2 * Cols::count - 1;
    typename V::type values[Cols::count];
    reads.load(row, values);
#pragma GCC unroll 8
    for (int i = 0; i < Cols::count; ++i)
#pragma GCC unroll 4
      for (int side = 0; side < 4; ++side) {
        const int y = side / 2, x = side % 2;
        if (Rows::exists(m, y) && Cols::exists(i, x))
          sum[y][x] =
              mul_add(w.at(channel, Rows::tap(m, y) * K + Cols::tap(i, x)), values[i], sum[y][x]);
      }
  }

  // Interleaves even and odd columns.
  template <class V>
  GEX_INLINE static void store_pair(T* out, const typename V::type (&sum)[2]) {
    const auto lane = V::numbers(), from = lane / 2 + (lane & 1) * V::lanes;
    V::store(out, __builtin_shuffle(sum[0], sum[1], from));
    V::store(out + V::lanes, __builtin_shuffle(sum[0], sum[1], from + V::lanes / 2));
  }

  GEX_NOINLINE void store_rows(i64 offset, i64 rows) const {
    if (xs[2] == width * xs[3])
      return store_row(finished(), rows * width, context.x, buffers[2], offset, xs[3]);
    for (i64 r = 0; r < rows; ++r)
      store_row(finished() + r * width, width, context.x, buffers[2], offset + r * xs[2], xs[3]);
  }
};

void conv2d_input_grad(const void* context, void* const* buffers, const i64* dims, i64 begin,
                       i64 end, std::byte* scratch) {
  const auto& c = *static_cast<const Conv2dContext*>(context);
  if (c.y == DType::f64)
    ConvInputGrad<double>(c, buffers, dims, scratch).run(begin, end);
  else
    ConvInputGrad<float>(c, buffers, dims, scratch).run(begin, end);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
