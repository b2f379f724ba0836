#pragma once
// Matmuls of small matrices: operands are read in place, since packing them and passing the result
// through a tile would take a good part of the time. The order of additions is that of gemm.hpp, so
// both give the same bits.

#include "backend/cpu/kernels/simd/gemm.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// The operand whose elements are broadcast: rows by k. Either stride is 1.
template <class T>
struct LeftInPlace {
  const T* data;
  i64 row_stride, k_stride;
};

// The operand that is read in vectors: columns are adjacent inside a panel. Columns from `whole` on
// don't fill a vector; they are in `edge`, [depth][panel], padded with zeros.
template <class T>
struct RightInPlace {
  const T* data;
  i64 k_stride, panel_stride;
  i64 whole;
  const T* edge;
};

// How words of both operands are multiplied and added up: numbers of type T themselves. See
// attention_pairs.hpp for pairs of numbers.
template <class T>
struct Products {
  using Word = T;
  using Sum = T;
  using Words = Vec<T>;
  static GEX_INLINE Words load_words(const Word* p) { return load<T>(p); }
  static GEX_INLINE Words repeat(Word word) { return splat(word); }
  static GEX_INLINE Vec<Sum> add(Words a, Words b, Vec<Sum> sum) { return mul_add(a, b, sum); }
};
template <class T>
using WordOf = typename Products<T>::Word;
template <class T>
using SumOf = typename Products<T>::Sum;

// c[R][kVectors vectors] (+)= a[R][depth] * b[depth][kVectors vectors]. `a_stride` is between rows,
// or between values of k where the rows are adjacent.
template <class T, int R, int kVectors, bool kRowsAdjacent>
void in_place_kernel(i64 depth, const WordOf<T>* __restrict a, i64 a_stride,
                     const WordOf<T>* __restrict b, i64 b_stride, SumOf<T>* __restrict c,
                     i64 c_stride, bool accumulate) {
  using Sum = SumOf<T>;
  using Words = typename Products<T>::Words;
  constexpr int lanes = kLanes<Sum>;
  // Three rows from each pointer: as many as scaled addressing reaches with one register.
  constexpr int kPointers = (R + 2) / 3;
  const WordOf<T>* rows[kPointers];
#pragma GCC unroll 4
  for (int p = 0; p < kPointers; ++p) rows[p] = a + 3 * p * a_stride;
  Vec<Sum> acc[R][kVectors] = {};
  for (i64 k = 0; k < depth; ++k) {
    Words right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = Products<T>::load_words(b + v * lanes);
    b += b_stride;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Words left = Products<T>::repeat(kRowsAdjacent ? a[r] : rows[r / 3][r % 3 * a_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = Products<T>::add(left, right[v], acc[r][v]);
    }
    a += a_stride;
#pragma GCC unroll 4
    for (int p = 0; p < kPointers; ++p) ++rows[p];
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r, c += c_stride) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if (accumulate) acc[r][v] = load<Sum>(c + v * lanes) + acc[r][v];
      store(c + v * lanes, acc[r][v]);
    }
  }
}

template <class T>
using InPlaceKernel = void (*)(i64, const WordOf<T>*, i64, const WordOf<T>*, i64, SumOf<T>*, i64,
                               bool);

template <class T, int kVectors, bool kRowsAdjacent, int... R>
GEX_INLINE InPlaceKernel<T> in_place_kernel_of(int rows) {
  static constexpr InPlaceKernel<T> table[] = {&in_place_kernel<T, R, kVectors, kRowsAdjacent>...};
  return table[rows - 1];
}
template <class T, int kVectors, bool kRowsAdjacent>
GEX_INLINE InPlaceKernel<T> in_place_kernel_for(int rows) {
  if constexpr (kMicroRows == 12)
    return in_place_kernel_of<T, kVectors, kRowsAdjacent, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>(
        rows);
  else
    return in_place_kernel_of<T, kVectors, kRowsAdjacent, 1, 2, 3, 4, 5, 6>(rows);
}

template <class T, bool kRowsAdjacent, int... R>
GEX_INLINE InPlaceKernel<T> wide_in_place_kernel_of(int rows) {
  static constexpr InPlaceKernel<T> table[] = {
      &in_place_kernel<T, R, vectors_of_rows(R), kRowsAdjacent>...};
  return table[rows - 1];
}

// out[rows][cols rounded up to whole vectors] = left * right for at most kMicroRows rows.
template <class T, bool kRowsAdjacent>
void multiply_in_place(int rows, i64 cols, i64 depth, const LeftInPlace<T>& left,
                       const RightInPlace<T>& right, T* out, i64 out_stride) {
  constexpr int lanes = kLanes<T>;
  const InPlaceKernel<T> two = in_place_kernel_for<T, 2, kRowsAdjacent>(rows);
  const InPlaceKernel<T> one = in_place_kernel_for<T, 1, kRowsAdjacent>(rows);
  const i64 a_stride = kRowsAdjacent ? left.k_stride : left.row_stride;
  i64 c = 0;
  // If panels follow one another, a row of k is one run.
  if (rows <= kFewMicroRows && right.panel_stride == kPanel<T>) {
    const InPlaceKernel<T> wide = wide_in_place_kernel_of<T, kRowsAdjacent, 1, 2, 3, 4>(rows);
    const i64 width = vectors_of_rows(rows) * lanes;
    for (; right.whole - c >= width && cols - c >= width; c += width)
      for (i64 k = 0; k < depth; k += kDepth)
        wide(smaller(kDepth, depth - k), left.data + k * left.k_stride, a_stride,
             right.data + c + k * right.k_stride, right.k_stride, out + c, out_stride, k > 0);
  }
  while (c < cols) {
    const bool edge = c >= right.whole;
    const bool pair = !edge && right.whole - c >= 2 * lanes;
    const T* b =
        edge ? right.edge : right.data + c / kPanel<T> * right.panel_stride + c % kPanel<T>;
    const i64 b_stride = edge ? kPanel<T> : right.k_stride;
    for (i64 k = 0; k < depth; k += kDepth)
      (pair ? two : one)(smaller(kDepth, depth - k), left.data + k * left.k_stride, a_stride,
                         b + k * b_stride, b_stride, out + c, out_stride, k > 0);
    c += pair ? 2 * lanes : lanes;
  }
}

// Calls fn(first, count) for even groups of at most kMicroRows rows of [begin, end).
template <class Fn>
GEX_INLINE void for_each_row_group(i64 begin, i64 end, const Fn& fn) {
  const i64 rows = end - begin, groups = ceil_div(rows, kMicroRows);
  for (i64 g = 0; g < groups; ++g) {
    const i64 first = rows * g / groups;
    fn(begin + first, static_cast<int>(rows * (g + 1) / groups - first));
  }
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
