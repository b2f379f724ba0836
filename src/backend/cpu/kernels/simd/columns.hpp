#pragma once
// The column matrix of a convolution, [channel*kh*kw][oh*ow], without materialising it: geometry,
// and gathering of parts.

#include "backend/cpu/kernels/conv_tiles.hpp"
#include "backend/cpu/kernels/simd/tile_io.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// The k-th row of the column matrix.
struct Tap {
  i64 channel, y, x;
};

template <class T>
struct Columns {
  const Conv2dContext& context;
  const void* data;
  const i64* strides;  // of X: n, c, h, w
  i64 height, width, kernel_h, kernel_w, out_h, out_w;
  i64 extent;               // elements from the first of X to its last
  BoundPrologue* computed;  // null: X is in memory

  Columns(const Conv2dContext& c, const void* x, const i64* dims, BoundPrologue* made = nullptr)
      : context(c),
        data(x),
        strides(dims + conv2d_dims::x_strides),
        height(dims[conv2d_dims::h]),
        width(dims[conv2d_dims::w]),
        kernel_h(dims[conv2d_dims::kh]),
        kernel_w(dims[conv2d_dims::kw]),
        out_h(dims[conv2d_dims::oh]),
        out_w(dims[conv2d_dims::ow]),
        extent((dims[conv2d_dims::n] - 1) * strides[0] + (dims[conv2d_dims::c] - 1) * strides[1] +
               (height - 1) * strides[2] + (width - 1) * strides[3] + 1),
        computed(made) {}

  Tap tap(i64 k) const {
    return {k / (kernel_h * kernel_w), k / kernel_w % kernel_h, k % kernel_w};
  }
  GEX_INLINE void next(Tap& t) const {
    if (++t.x < kernel_w) return;
    t.x = 0;
    if (++t.y < kernel_h) return;
    t.y = 0;
    ++t.channel;
  }

  i64 input_y(i64 y, i64 tap_y) const {
    return y * context.stride[0] - context.pad[0] + tap_y * context.dilation[0];
  }
  i64 input_x(i64 x, i64 tap_x) const {
    return x * context.stride[1] - context.pad[1] + tap_x * context.dilation[1];
  }

  // Output positions whose input column for a tap lies inside the image: [first, last).
  struct Inside {
    i64 first, last;
  };
  Inside inside(i64 tap_x) const { return inside_from(input_x(0, tap_x)); }
  // The same for a row that starts at input column x0. Avoids the division, which is slow and
  // rarely needed.
  GEX_INLINE Inside inside_from(i64 x0) const {
    const i64 step = context.stride[1];
    if (step == 1) return {-x0, width - x0};
    return {x0 >= 0 ? 0 : ceil_div(-x0, step), x0 >= width ? 0 : (width - 1 - x0) / step + 1};
  }

  // Splits columns [col, col + count) at the ends of output rows: fn(y, x, distance from col, n).
  template <class Fn>
  GEX_INLINE void for_each_output_row(i64 col, i64 count, const Fn& fn) const {
    i64 y = col / out_w, x = col % out_w;
    for (i64 at = 0; at < count;) {
      const i64 n = smaller(out_w - x, count - at);
      fn(y, x, at, n);
      at += n;
      x = 0;
      ++y;
    }
  }

  // dst[i] = row[i*stride] for first <= i < last, zero for the rest of [0, count). `last` may be
  // beyond count; elements up to there exist in memory.
  template <class S>
  GEX_INLINE static void gather(T* dst, const S* row, i64 stride, i64 first, i64 last, i64 count) {
    constexpr int lanes = kLanes<T>;
    const i64 readable = last;
    first = larger(i64{0}, smaller(first, count));
    last = larger(first, smaller(last, count));
    i64 i = 0;
    for (; i < first; ++i) dst[i] = T{};
    if (stride == 1) {
      for (; i + lanes <= last; i += lanes) store(dst + i, load<T>(row + i));
      if (i < last && last - first >= lanes) {
        // The remainder as a vector that overlaps the previous one.
        store(dst + last - lanes, load<T>(row + last - lanes));
        i = last;
      }
      if constexpr (sizeof(S) == sizeof(T)) {
        // Rows of small images are shorter than a vector.
        constexpr i64 part = 4;
        for (; i + part <= last; i += part) __builtin_memcpy(dst + i, row + i, part * sizeof(T));
        if (i < last && last - first >= part) {
          __builtin_memcpy(dst + last - part, row + last - part, part * sizeof(T));
          i = last;
        }
      }
    } else if (stride == 2) {
      // Strictly less: the second load reads one element more than needed.
      for (; i + lanes <= last && i + lanes < readable; i += lanes)
        store(dst + i, Vec<T>(__builtin_shuffle(load<T>(row + 2 * i), load<T>(row + 2 * i + lanes),
                                                lane_numbers<T>() * 2)));
    }
    for (; i < last; ++i) dst[i] = widen(row[i * stride]);
    for (; i < count; ++i) dst[i] = T{};
  }

  // The same from a row of a computed X; dst[0] corresponds to element `offset` of its grid.
  void gather_computed(T* dst, i64 offset, i64 stride, i64 first, i64 last, i64 count) const {
    first = larger(i64{0}, smaller(first, count));
    last = larger(first, smaller(last, count));
    for (i64 i = 0; i < first; ++i) dst[i] = T{};
    for (i64 i = last; i < count; ++i) dst[i] = T{};
    if (stride == 1) return computed->fill(dst + first, offset + first, last - first);
    T* row = reinterpret_cast<T*>(computed->staging);
    const i64 step = larger(i64{1}, kStagedElements / stride);
    for (i64 i = first; i < last; i += step) {
      const i64 n = smaller(step, last - i);
      computed->fill(row, offset + i * stride, (n - 1) * stride + 1);
      for (i64 j = 0; j < n; ++j) dst[i + j] = row[j * stride];
    }
  }

  // The weights of a group's channels as [channels][depth].
  void widen_weights(T* dst, const MatrixView& w, const i64* w_strides, i64 depth,
                     i64 channels) const {
    Tap t = {};
    for (i64 k = 0; k < depth; ++k, next(t))
      with_storage<T>(w.dtype, w.data, [&](auto* base) {
        for (i64 o = 0; o < channels; ++o)
          dst[o * depth + k] = widen(base[w.offset + o * w_strides[0] + t.channel * w_strides[1] +
                                          t.y * w_strides[2] + t.x * w_strides[3]]);
      });
  }

  // `plane`: offset of the group's first channel. Packs rows [k, k + slice) of columns
  // [col, col + cols) into panels, the last one padded by zero.
  void pack(T* space, i64 plane, i64 k, i64 slice, i64 col, i64 cols) const {
    constexpr i64 kKnown = 16;
    Inside known[kKnown];
    for (i64 x = 0; x < smaller(kKnown, kernel_w); ++x) known[x] = inside(x);
    struct Segment {
      i64 y, x, at, count;
    };
    with_storage<T>(context.x, data, [&](auto* base) {
      for (i64 c = 0; c < cols; c += kPanel<T>) {
        const i64 n = smaller(kPanel<T>, cols - c);
        Segment segments[kPanel<T>];
        int segment_count = 0;
        for_each_output_row(col + c, n, [&](i64 y, i64 x, i64 at, i64 count) {
          segments[segment_count++] = {input_y(y, 0), x, at, count};
        });
        T* row = space + c * kDepth;
        Tap t = tap(k);
        for (i64 i = 0; i < slice; ++i, row += kPanel<T>, next(t)) {
          auto* from = base + plane + t.channel * strides[1];
          const Inside valid = t.x < kKnown ? known[t.x] : inside(t.x);
          for (int s = 0; s < segment_count; ++s) {
            const Segment& g = segments[s];
            const i64 y = g.y + t.y * context.dilation[0];
            const i64 last = y < 0 || y >= height ? 0 : valid.last - g.x;
            if (computed) {
              gather_computed(row + g.at,
                              plane + t.channel * strides[1] + y * strides[2] + input_x(g.x, t.x),
                              context.stride[1], valid.first - g.x, last, g.count);
              continue;
            }
            gather(row + g.at, from + y * strides[2] + input_x(g.x, t.x) * strides[3],
                   context.stride[1] * strides[3], valid.first - g.x, last, g.count);
          }
          for (i64 j = n; j < kPanel<T>; ++j) row[j] = T{};
        }
      }
    });
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
