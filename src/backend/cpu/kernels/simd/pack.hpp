#pragma once
// Copies a strided matrix of any float storage into dense rows of the accumulator type. Packs both
// operands of the micro-kernel: the left one as [m][k], a panel of the right one as [k][n].

#include "backend/cpu/kernels/simd/vec.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// Swaps the d x d blocks off the diagonal of every 2d x 2d block: log2(lanes) such steps transpose.
template <class T, int d>
GEX_INLINE void transpose_step(Vec<T> (&rows)[kLanes<T>]) {
  constexpr int lanes = kLanes<T>;
  const VecIndex<T> low = lower_halves<T>(d), high = upper_halves<T>(d);
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    if (i & d) continue;
    const Vec<T> a = rows[i], b = rows[i + d];
    rows[i] = __builtin_shuffle(a, b, low);
    rows[i + d] = __builtin_shuffle(a, b, high);
  }
}

// dst[i][j] = src[j][i] for a square of one vector's width; rows of either side are contiguous.
template <class T, class S>
GEX_INLINE void transpose_square(T* dst, i64 dst_stride, const S* src, i64 src_stride) {
  constexpr int lanes = kLanes<T>;
  Vec<T> rows[lanes];
#pragma GCC unroll 16
  for (int j = 0; j < lanes; ++j) {
    rows[j] = load<T>(src + j * src_stride);
    fetch(src + (j + lanes) * src_stride);
  }
  transpose_step<T, 1>(rows);
  if constexpr (lanes > 2) transpose_step<T, 2>(rows);
  if constexpr (lanes > 4) transpose_step<T, 4>(rows);
  if constexpr (lanes > 8) transpose_step<T, 8>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) store(dst + i * dst_stride, rows[i]);
}

template <class T, class S>
void pack_elements(T* dst, i64 dst_stride, i64 rows, i64 cols, const S* src, i64 row_stride,
                   i64 col_stride) {
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = 0; c < cols; ++c)
      dst[r * dst_stride + c] = widen(src[r * row_stride + c * col_stride]);
}

template <class T, class S>
void pack_contiguous_rows(T* dst, i64 dst_stride, i64 rows, i64 cols, const S* src,
                          i64 row_stride) {
  constexpr int lanes = kLanes<T>;
  for (i64 r = 0; r < rows; ++r) {
    const S* from = src + r * row_stride;
    T* to = dst + r * dst_stride;
    fetch(from + cols);  // of a panel: the beginning of the next panel
    i64 c = 0;
    for (; c + lanes <= cols; c += lanes) store(to + c, load<T>(from + c));
    for (; c < cols; ++c) to[c] = widen(from[c]);
  }
}

template <class T, class S>
void pack_contiguous_cols(T* dst, i64 dst_stride, i64 rows, i64 cols, const S* src,
                          i64 col_stride) {
  constexpr int lanes = kLanes<T>;
  i64 c = 0;
  for (; c + lanes <= cols; c += lanes) {
    i64 r = 0;
    for (; r + lanes <= rows; r += lanes)
      transpose_square<T>(dst + r * dst_stride + c, dst_stride, src + r + c * col_stride,
                          col_stride);
    pack_elements(dst + r * dst_stride + c, dst_stride, rows - r, lanes, src + r + c * col_stride,
                  1, col_stride);
  }
  pack_elements(dst + c, dst_stride, rows, cols - c, src + c * col_stride, 1, col_stride);
}

// dst[r*dst_stride + c] = src[r*row_stride + c*col_stride]
template <class T, class S>
void pack_rows(T* dst, i64 dst_stride, i64 rows, i64 cols, const S* src, i64 row_stride,
               i64 col_stride) {
  if (col_stride == 1)
    pack_contiguous_rows(dst, dst_stride, rows, cols, src, row_stride);
  else if (row_stride == 1)
    pack_contiguous_cols(dst, dst_stride, rows, cols, src, col_stride);
  else
    pack_elements(dst, dst_stride, rows, cols, src, row_stride, col_stride);
}

template <class T>
void zero_columns(T* dst, i64 dst_stride, i64 rows, i64 from, i64 to) {
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = from; c < to; ++c) dst[r * dst_stride + c] = T{};
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
