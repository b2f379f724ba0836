#pragma once
// Convolution of few channels as a matmul of weights with pixels, without a column matrix: in a
// padded copy of the image, whose rows and columns are sorted by their remainder by the stride,
// what a tap reads for adjacent pixels is adjacent, also across the ends of rows. Results are
// planes at once; values between the rows are dropped.

#include "backend/cpu/kernels/simd/conv2d_pixels.hpp"
#include "backend/cpu/kernels/simd/lane_range.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// c[R][kVectors vectors] (+)= sum over k of a[k][R] * image[offsets[k] + ...]. Rows of `a` are one
// panel apart.
template <class T, int R, int kVectors>
void shift_kernel(i64 depth, const T* __restrict a, const T* __restrict image,
                  const i64* __restrict offsets, T* __restrict c, i64 c_stride, bool accumulate) {
  constexpr int lanes = kLanes<T>;
  Vec<T> acc[R][kVectors] = {};
  for (i64 k = 0; k < depth; ++k, a += kPanel<T>) {
    const T* from = image + offsets[k];
    Vec<T> right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = load<T>(from + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec<T> left = splat(a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = mul_add(left, right[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r, c += c_stride) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if (accumulate) acc[r][v] = load<T>(c + v * lanes) + acc[r][v];
      store(c + v * lanes, acc[r][v]);
    }
  }
}

template <class T>
using ShiftKernel = void (*)(i64, const T*, const T*, const i64*, T*, i64, bool);

template <class T, int kVectors, int... R>
GEX_INLINE ShiftKernel<T> shift_kernel_of(int rows) {
  static constexpr ShiftKernel<T> table[] = {&shift_kernel<T, R, kVectors>...};
  return table[rows - 1];
}
template <class T, int kVectors>
GEX_INLINE ShiftKernel<T> shift_kernel_for(int rows) {
  if constexpr (kMicroRows == 12)
    return shift_kernel_of<T, kVectors, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>(rows);
  else
    return shift_kernel_of<T, kVectors, 1, 2, 3, 4, 5, 6>(rows);
}

template <class T, int... R>
GEX_INLINE ShiftKernel<T> wide_shift_kernel_of(int rows) {
  static constexpr ShiftKernel<T> table[] = {&shift_kernel<T, R, vectors_of_rows(R)>...};
  return table[rows - 1];
}

template <class T>
struct ShiftConv {
  static_assert(kShiftSlack >= 2 * kLanes<T>);
  // From one channel to the next, with room for a vector after the last pixel.
  static constexpr i64 kFinishedStride = kConvPixels + kPanel<T>;
  static_assert(kMicroRows * kFinishedStride <= kConvPixels * kPanel<T>);
  static constexpr i64 kNearElements = 24 * 1024;
  static constexpr i64 kVectorsAtOnce = 8;  // of a row that is copied

  PixelConv<T>& space;  // scratch and packed weights
  const Columns<T>& columns;
  const Conv2dContext& context;
  const ConvSizes& sizes;

  // Some columns of some rows of the result, and the rows and columns of the copy for each
  // remainder.
  struct Window {
    i64 y, rows, x, columns, copied_rows, copied_columns;
  };

  // As PixelConv::run.
  template <class Finish>
  void run(i64 plane, const MatrixView& w, i64 row0, i64 row1, i64 col0, i64 col1,
           const Finish& finish) const {
    const i64 out_w = columns.out_w, most_rows = rows_at_once();
    const i64 most_columns = sizes.shifted_columns();
    space.packed = -1;
    for (i64 col = col0; col < col1;) {
      Window window = {col / out_w, 1, col % out_w, 0, 0, 0};
      const bool whole = window.x == 0 && most_rows > 0 && col1 - col >= out_w;
      if (whole) window.rows = smaller(most_rows, (col1 - col) / out_w);
      window.columns = whole ? out_w : smaller(smaller(most_columns, out_w - window.x), col1 - col);
      window.copied_rows = window.rows + sizes.shift_reach(0);
      window.copied_columns = window.columns + sizes.shift_reach(1);
      copy(plane, window);
      set_offsets(window);
      multiply(w, row0, row1, window, finish);
      col += window.rows * window.columns;
    }
  }

  // Few enough that the copy is still in the cache when it is read; as many as fit if most rows of
  // such a small copy would be copied again for the next window.
  i64 rows_at_once() const {
    const i64 most = sizes.shifted_rows(columns.out_w), again = sizes.shift_reach(0);
    const i64 row =
        sizes.in * context.stride[0] * context.stride[1] * (columns.out_w + sizes.shift_reach(1));
    const i64 near = kNearElements / larger(row, i64{1}) - again;
    return near >= 4 * again + 4 ? smaller(most, near) : most;
  }

  // image[channel][remainder of the row][remainder of the column][row][column]
  void copy(i64 plane, const Window& w) const {
    const i64 size = w.copied_rows * w.copied_columns,
              parts = context.stride[0] * context.stride[1];
    T* end = space.image + sizes.in * parts * size;
    if (columns.computed)
      copy_computed(plane, w);
    else
      with_storage<T>(context.x, columns.data, [&](auto* base) {
        const bool adjacent = columns.strides[3] == 1;
        if (adjacent && context.stride[1] == 1)
          copy_adjacent<1>(base + plane, w);
        else if (adjacent && context.stride[1] == 2 && w.copied_columns >= kLanes<T>)
          copy_adjacent<2>(base + plane, w);
        else
          copy_any(base + plane, w);
      });
    for (i64 i = 0; i < kShiftSlack; ++i) end[i] = T{};
  }

  // fn(row of the input, whether it is outside, its place in the copy) for all rows that taps read.
  template <class Fn>
  GEX_INLINE void for_each_row(const Window& w, const Fn& fn) const {
    const i64 size = w.copied_rows * w.copied_columns;
    T* to = space.image;
    for (i64 c = 0; c < sizes.in; ++c)
      for (i64 part = 0; part < context.stride[0]; ++part, to += context.stride[1] * size) {
        if (!sizes.is_shifted(0, part)) continue;
        for (i64 r = 0; r < w.copied_rows; ++r) {
          const i64 y = (w.y + r) * context.stride[0] + part - context.pad[0];
          fn(c * columns.strides[1] + y * columns.strides[2], y < 0 || y >= columns.height,
             to + r * w.copied_columns);
        }
      }
  }

  template <class S>
  void copy_any(const S* plane, const Window& w) const {
    const i64 step = context.stride[1], size = w.copied_rows * w.copied_columns;
    for_each_row(w, [&](i64 row, bool outside, T* to) {
      for (i64 part = 0; part < step; ++part, to += size) {
        if (!sizes.is_shifted(1, part)) continue;
        const i64 x = w.x * step + part - context.pad[1];
        const auto inside = columns.inside_from(x);
        columns.gather(to, plane + row + x * columns.strides[3], step * columns.strides[3],
                       inside.first, outside ? 0 : inside.last, w.copied_columns);
      }
    });
  }

  // The last columns first: a vector that extends into the next row is overwritten there. The
  // others row by row, some vectors of each at a time, because memory is read fastest in order. Of
  // columns that are sorted into two parts there is at least a vector.
  template <int kStep, class S>
  void copy_adjacent(const S* plane, const Window& w) const {
    constexpr i64 lanes = kLanes<T>;
    i64 end = round_up(w.copied_columns, lanes) - lanes;
    copy_vectors<kStep>(plane, w, end, 1);
    for (; end > 0; end -= kVectorsAtOnce * lanes) {
      const i64 begin = larger(i64{0}, end - kVectorsAtOnce * lanes);
      copy_vectors<kStep>(plane, w, begin, (end - begin) / lanes);
    }
  }

  // Columns [first, first + count vectors) of all rows.
  template <int kStep, class S>
  GEX_INLINE void copy_vectors(const S* plane, const Window& w, i64 first, i64 count) const {
    using Taps = TapColumns<T, kStep, kStep, kVectorBytes>;
    constexpr i64 lanes = kLanes<T>;
    const i64 size = w.copied_rows * w.copied_columns;
    const i64 x = (w.x + first) * kStep - context.pad[1];
    Taps reads[kVectorsAtOnce];
    for (i64 v = 0; v < count; ++v) {
      const i64 at = x + v * kStep * lanes;
      reads[v] = Taps(-at, columns.width - at, lanes);
    }
    for_each_row(w, [&](i64 row, bool outside, T* to) {
      const S* from = plane + row + x;
      to += first;
      for (i64 v = 0; v < count; ++v, from += kStep * lanes, to += lanes) {
        Vec<T> values[kStep] = {};
        if (!outside) reads[v].load(from, values);
#pragma GCC unroll 2
        for (int part = 0; part < kStep; ++part) store(to + part * size, values[part]);
      }
    });
  }

  void copy_computed(i64 plane, const Window& w) const {
    const i64 step = context.stride[1], size = w.copied_rows * w.copied_columns;
    const i64* s = columns.strides;
    // Planes that are read as they are.
    if (sizes.is_plain_window() && w.columns == columns.width) {
      for (i64 c = 0; c < sizes.in; ++c)
        columns.computed->fill(space.image + c * size, plane + c * s[1] + w.y * s[2], size);
      return;
    }
    for_each_row(w, [&](i64 row, bool outside, T* to) {
      for (i64 part = 0; part < step; ++part, to += size) {
        if (!sizes.is_shifted(1, part)) continue;
        const i64 x = w.x * step + part - context.pad[1];
        const auto inside = columns.inside_from(x);
        columns.gather_computed(to, plane + row + x, step, inside.first, outside ? 0 : inside.last,
                                w.copied_columns);
      }
    });
  }

  void set_offsets(const Window& w) const {
    const i64 size = w.copied_rows * w.copied_columns, taps = columns.kernel_h * columns.kernel_w;
    const i64 step_c = context.stride[0] * context.stride[1] * size;
    for (i64 y = 0, tap = 0; y < columns.kernel_h; ++y)
      for (i64 x = 0; x < columns.kernel_w; ++x, ++tap) {
        const i64 at_y = y * context.dilation[0], at_x = x * context.dilation[1];
        const i64 part = at_y % context.stride[0] * context.stride[1] + at_x % context.stride[1];
        i64 offset =
            part * size + at_y / context.stride[0] * w.copied_columns + at_x / context.stride[1];
        for (i64 c = 0; c < sizes.in; ++c, offset += step_c) space.offsets[c * taps + tap] = offset;
      }
  }

  // Blocks of whole rows, or parts of one that is longer than a block.
  template <class Finish>
  void multiply(const MatrixView& w, i64 row0, i64 row1, const Window& window,
                const Finish& finish) const {
    const i64 depth = space.depth, step = kConvDepth / depth * kPanel<T>;
    const i64 rows_at_once = larger(i64{1}, kConvPixels / window.copied_columns);
    const i64 columns_at_once = smaller(kConvPixels, window.columns);
    for (i64 row = row0; row < row1; row += step) {
      const i64 height = smaller(step, row1 - row);
      const T* panels = space.panels_of(w, row, height);
      for (i64 y = 0; y < window.rows; y += rows_at_once)
        for (i64 x = 0; x < window.columns; x += columns_at_once) {
          const Window block = {y, smaller(rows_at_once, window.rows - y),
                                x, smaller(columns_at_once, window.columns - x),
                                0, window.copied_columns};
          const i64 col = (window.y + y) * columns.out_w + window.x + x;
          for (i64 r = 0; r < height; r += kPanel<T>)
            for_each_row_group(r, smaller(r + kPanel<T>, height), [&](i64 first, int count) {
              multiply_block(count, panels + r * depth + (first - r), block);
              for (int i = 0; i < count; ++i)
                finish(dense(space.finished + i * kFinishedStride, block), row + first + i, col,
                       block.rows * block.columns);
            });
        }
    }
  }

  // Whether rows are computed one by one, because whole vectors are little more than a row.
  bool by_row(const Window& block) const {
    return 16 * round_up(block.columns, kLanes<T>) <= 17 * block.columns;
  }

  // finished[count][...] = weights * pixels of a block, by row or with the values between its rows.
  void multiply_block(int count, const T* weights, const Window& block) const {
    const T* image = space.image + block.y * block.copied_columns + block.x;
    if (!by_row(block))
      return multiply_run(count, weights, image, space.finished,
                          (block.rows - 1) * block.copied_columns + block.columns);
    for (i64 r = 0; r < block.rows; ++r)
      multiply_run(count, weights, image + r * block.copied_columns,
                   space.finished + r * block.columns, block.columns);
  }

  void multiply_run(int count, const T* weights, const T* image, T* out, i64 pixels) const {
    constexpr int lanes = kLanes<T>;
    const ShiftKernel<T> two = shift_kernel_for<T, 2>(count);
    const ShiftKernel<T> one = shift_kernel_for<T, 1>(count);
    i64 c = 0;
    if (count <= kFewMicroRows) {
      const ShiftKernel<T> wide = wide_shift_kernel_of<T, 1, 2, 3, 4>(count);
      const i64 width = vectors_of_rows(count) * lanes;
      for (; pixels - c >= width; c += width)
        for (i64 k = 0; k < space.depth; k += kDepth)
          wide(smaller(kDepth, space.depth - k), weights + k * kPanel<T>, image + c,
               space.offsets + k, out + c, kFinishedStride, k > 0);
    }
    while (c < pixels) {
      const bool pair = pixels - c > lanes;
      for (i64 k = 0; k < space.depth; k += kDepth)
        (pair ? two : one)(smaller(kDepth, space.depth - k), weights + k * kPanel<T>, image + c,
                           space.offsets + k, out + c, kFinishedStride, k > 0);
      c += pair ? 2 * lanes : lanes;
    }
  }

  // Each row's vectors may extend into the next row, which is written afterwards.
  const T* dense(const T* values, const Window& block) const {
    if (by_row(block) || block.rows == 1 || block.columns == block.copied_columns) return values;
    constexpr i64 lanes = kLanes<T>;
    T* to = space.tile;
    for (i64 r = 0; r < block.rows; ++r, to += block.columns, values += block.copied_columns)
      for (i64 i = 0; i < block.columns; i += lanes) store(to + i, load<T>(values + i));
    return space.tile;
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
