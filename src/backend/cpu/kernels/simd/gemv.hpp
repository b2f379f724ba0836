#pragma once
// Matmuls with few rows (decode): the large operand is read once, in place, and widened in
// registers, so that the cost is only its memory traffic. Two forms for its two layouts.

#include "backend/cpu/kernels/simd/pairs.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// Number of columns of the large operand that are processed together for a given number of rows: as
// many as there are registers for accumulators.
constexpr int columns_at_once(int rows) {
  if (kVectorBytes == 64) return rows <= 6 ? 4 : 3;
  return rows <= 3 ? 3 : rows <= 5 ? 2 : 1;
}

// Prefetch distance in elements: the following rows, or further if they are short. A row may be too
// short for the hardware prefetcher.
template <class S>
GEX_INLINE i64 fetch_distance(i64 rows, i64 row_stride) {
  const i64 group = rows * larger(row_stride, i64{1});
  return group * ceil_div(kFetchBytes, group * static_cast<i64>(sizeof(S)));
}

// tile[R][C] (+)= a[R][depth] . b[C][depth], both contiguous along depth.
template <class T, class S, int R, int C>
GEX_INLINE void dot_block(i64 depth, const T* __restrict a, i64 a_stride, const S* __restrict b,
                          i64 b_stride, i64 ahead, T* __restrict tile, i64 tile_stride,
                          bool accumulate) {
  constexpr int lanes = kLanes<T>;
  Vec<T> acc[R][C] = {};
  i64 k = 0;
  for (; k + lanes <= depth; k += lanes) {
    Vec<T> right[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      right[c] = load<T>(b + c * b_stride + k);
      fetch(b + ahead + c * b_stride + k);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec<T> left = load<T>(a + r * a_stride + k);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = mul_add(left, right[c], acc[r][c]);
    }
  }
  if (k < depth) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const Vec<T> right = load_part<T>(b + c * b_stride + k, depth - k);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        acc[r][c] = mul_add(load_part<T>(a + r * a_stride + k, depth - k), right, acc[r][c]);
    }
  }
  T sums[R * C];
  sum_lanes_of_each<T, R * C>(&acc[0][0], sums);
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      T* out = tile + r * tile_stride + c;
      *out = accumulate ? *out + sums[r * C + c] : sums[r * C + c];
    }
  }
}

template <class T, class S, int R>
void dot_rows_of(i64 cols, i64 depth, const T* a, i64 a_stride, const S* b, i64 b_stride, T* tile,
                 i64 tile_stride, bool accumulate) {
  constexpr int C = columns_at_once(R);
  const i64 ahead = fetch_distance<S>(C, b_stride);
  i64 c = 0;
  for (; c + C <= cols; c += C)
    dot_block<T, S, R, C>(depth, a, a_stride, b + c * b_stride, b_stride, ahead, tile + c,
                          tile_stride, accumulate);
  for (; c < cols; ++c)
    dot_block<T, S, R, 1>(depth, a, a_stride, b + c * b_stride, b_stride, ahead, tile + c,
                          tile_stride, accumulate);
}

// tile[rows][cols] (+)= a[rows][depth] * b, where b[depth][cols] is contiguous along depth.
template <class T, class S>
void multiply_few_by_dots(i64 rows, i64 cols, i64 depth, const T* a, i64 a_stride, const S* b,
                          i64 b_stride, T* tile, i64 tile_stride, bool accumulate) {
  using Fn = void (*)(i64, i64, const T*, i64, const S*, i64, T*, i64, bool);
  static constexpr Fn table[] = {
      &dot_rows_of<T, S, 1>, &dot_rows_of<T, S, 2>, &dot_rows_of<T, S, 3>, &dot_rows_of<T, S, 4>,
      &dot_rows_of<T, S, 5>, &dot_rows_of<T, S, 6>, &dot_rows_of<T, S, 7>, &dot_rows_of<T, S, 8>};
  static_assert(kFewRows == 8);
  table[rows - 1](cols, depth, a, a_stride, b, b_stride, tile, tile_stride, accumulate);
}

// tile[R][one vector] += a[R][K] * b[K][one vector]
template <class T, class S, int R, int K>
GEX_INLINE void axpy_block(const T* __restrict a, i64 a_stride, const S* __restrict b, i64 b_stride,
                           i64 ahead, T* __restrict tile, i64 tile_stride) {
  Vec<T> acc[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r] = load<T>(tile + r * tile_stride);
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k) {
    const Vec<T> right = load<T>(b + k * b_stride);
    fetch(b + ahead + k * b_stride);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = mul_add(splat(a[r * a_stride + k]), right, acc[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) store(tile + r * tile_stride, acc[r]);
}

// The same for any depth and for a vector of which b has only `count` columns: the rest of a
// matrix.
template <class T, class S, int R>
GEX_NOINLINE void axpy_rest(i64 depth, const T* __restrict a, i64 a_stride, const S* __restrict b,
                            i64 b_stride, T* __restrict tile, i64 tile_stride, i64 count) {
  Vec<T> acc[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r] = load<T>(tile + r * tile_stride);
#pragma GCC unroll 1
  for (i64 k = 0; k < depth; ++k) {
    const S* row = b + k * b_stride;
    const Vec<T> right = count == kLanes<T> ? load<T>(row) : load_part<T>(row, count);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = mul_add(splat(a[r * a_stride + k]), right, acc[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) store(tile + r * tile_stride, acc[r]);
}

template <class T, class S, int R>
void axpy_rows_of(i64 cols, i64 depth, const T* a, i64 a_stride, const S* b, i64 b_stride, T* tile,
                  i64 tile_stride) {
  constexpr int K = 8, lanes = kLanes<T>;
  const i64 ahead = fetch_distance<S>(K, b_stride);
  const i64 whole_cols = cols / lanes * lanes, whole_depth = depth / K * K;
  for (i64 k = 0; k < whole_depth; k += K) {
    const S* rows = b + k * b_stride;
    for (i64 c = 0; c < whole_cols; c += lanes)
      axpy_block<T, S, R, K>(a + k, a_stride, rows + c, b_stride, ahead, tile + c, tile_stride);
  }
  for (i64 c = 0; c < cols; c += lanes) {
    const i64 k = c < whole_cols ? whole_depth : 0;
    if (k < depth)
      axpy_rest<T, S, R>(depth - k, a + k, a_stride, b + k * b_stride + c, b_stride, tile + c,
                         tile_stride, smaller(cols - c, i64{lanes}));
  }
}

// tile[rows][cols] += a[rows][depth] * b, where b[depth][cols] is contiguous along its columns.
// Rows of the tile hold whole vectors.
template <class T, class S>
void multiply_few_by_rows(i64 rows, i64 cols, i64 depth, const T* a, i64 a_stride, const S* b,
                          i64 b_stride, T* tile, i64 tile_stride) {
  using Fn = void (*)(i64, i64, const T*, i64, const S*, i64, T*, i64);
  static constexpr Fn table[] = {&axpy_rows_of<T, S, 1>, &axpy_rows_of<T, S, 2>,
                                 &axpy_rows_of<T, S, 3>, &axpy_rows_of<T, S, 4>,
                                 &axpy_rows_of<T, S, 5>, &axpy_rows_of<T, S, 6>,
                                 &axpy_rows_of<T, S, 7>, &axpy_rows_of<T, S, 8>};
  static_assert(kFewRows == 8);
  table[rows - 1](cols, depth, a, a_stride, b, b_stride, tile, tile_stride);
}

// tile[R][panel] += a[R][depth] * panel, a panel packed ahead of time: one stream of memory.
template <class T, class S, int R>
void panel_rows_of(i64 depth, const T* __restrict a, i64 a_stride, const S* __restrict panel,
                   T* __restrict tile, i64 tile_stride) {
  constexpr int lanes = kLanes<T>;
  for (i64 c = 0; c < kPanel<T>; c += 2 * lanes) {
    Vec<T> acc[R][2] = {};
    const auto add = [&](i64 k, Vec<T> first, Vec<T> second) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vec<T> left = splat(a[r * a_stride + k]);
        acc[r][0] = mul_add(left, first, acc[r][0]);
        acc[r][1] = mul_add(left, second, acc[r][1]);
      }
    };
    if constexpr (kPackedAsPairs<S>) {
      for (i64 k = 0; k < depth; k += 2) {
        const S* b = panel + k * kPanel<T> + 2 * c;
        const VecU32 first = load_pairs(b), second = load_pairs(b + 2 * lanes);
        fetch(b + kFetchBytes / static_cast<i64>(sizeof(S)));
        fetch(b + kFetchBytes / static_cast<i64>(sizeof(S)) + 2 * lanes);
        add(k, low_halves(first), low_halves(second));
        if (k + 1 < depth) add(k + 1, high_halves(first), high_halves(second));
      }
    } else {
      for (i64 k = 0; k < depth; ++k) {
        const S* b = panel + k * kPanel<T> + c;
        fetch(b + kFetchBytes / static_cast<i64>(sizeof(S)));
        add(k, load<T>(b), load<T>(b + lanes));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      T* out = tile + r * tile_stride + c;
      store(out, load<T>(out) + acc[r][0]);
      store(out + lanes, load<T>(out + lanes) + acc[r][1]);
    }
  }
}

template <class T, class S>
void multiply_few_by_panel(i64 rows, i64 depth, const T* a, i64 a_stride, const S* panel, T* tile,
                           i64 tile_stride) {
  using Fn = void (*)(i64, const T*, i64, const S*, T*, i64);
  static constexpr Fn table[] = {&panel_rows_of<T, S, 1>, &panel_rows_of<T, S, 2>,
                                 &panel_rows_of<T, S, 3>, &panel_rows_of<T, S, 4>,
                                 &panel_rows_of<T, S, 5>, &panel_rows_of<T, S, 6>,
                                 &panel_rows_of<T, S, 7>, &panel_rows_of<T, S, 8>};
  static_assert(kFewRows == 8);
  table[rows - 1](depth, a, a_stride, panel, tile, tile_stride);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
