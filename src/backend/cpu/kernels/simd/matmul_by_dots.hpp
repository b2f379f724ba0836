#pragma once
// C[b] = A[b] * B[b] of bf16 matrices where the columns of B are contiguous, as those of the
// weights of a linear layer are: B is read in place, along its columns. Rows of A are packed: the
// rows of a tile stay in the first-level cache while a block of columns, which stays in the
// second-level cache, is multiplied by them. Each sum is 16 partial sums in the lanes of a
// register, added when a slice of K ends; the order of additions of an output element depends only
// on K.

#include <cstdint>

#include "backend/cpu/kernels/simd/pair_launch.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

constexpr int kDotTileRows = 6, kDotTileCols = 4;  // of a tile of registers
// Of a tile where rows in eights pass over B less often; for more rows, six by four are faster.
constexpr int kTallTileRows = 8, kTallTileCols = 3;
constexpr i64 kDotBlockRows = kUnitRows;  // of A, packed at a time
constexpr i64 kDotBlockCols = 48;         // of B, in the second-level cache
constexpr i64 kDotStepDepth = 32;         // elements of K of one instruction
constexpr i64 kDotSliceDepth = 1024;      // at most: rows of a tile and columns that are
                                          // prefetched fit the first-level cache

// Rows of A and columns of B within one slice of K. Rows of A are padded by zeros to whole steps.
struct DotOperands {
  const BF16* a;
  i64 a_stride;
  const BF16* b;
  i64 b_stride;
  i64 depth;
  const BF16* next;  // columns that are prefetched, or null
};

// Each lane i without the bit `d`: a[i] + a[i ^ d]; with it: b[i] + b[i ^ d]. One shuffle, because
// those are the slowest of the operations around the dot products.
template <int d>
GEX_INLINE Vec<float> add_neighbours(Vec<float> a, Vec<float> b) {
  const VecIndex<float> lane = lane_numbers<float>(), from_b = (lane & d) != 0;
  const Vec<float> other = __builtin_shuffle(a, b, (lane ^ d) | (from_b & kLanes<float>));
  constexpr unsigned with_bit = d == 1 ? 0xaaaa : d == 2 ? 0xcccc : d == 4 ? 0xf0f0 : 0xff00;
  return _mm512_mask_blend_ps(static_cast<__mmask16>(with_bit), a, b) + other;
}

// tile[R][C] (+)= the sums of the lanes of each accumulator, from `first` on. Four rows of four
// columns are one vector of sums.
template <int first, int R, int C>
GEX_INLINE void add_lanes(const __m512 (&acc)[R][C], float* tile, i64 tile_stride,
                          bool accumulate) {
  static_assert(C == 1 || C == 3 || C == 4);
  constexpr int rows = R - first < 4 ? R - first : 4;
  Vec<float> sums[4];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    const auto& row = acc[first + r];
    if constexpr (C == 1)
      sums[r] = add_neighbours<2>(add_neighbours<1>(row[0], row[0]), Vec<float>{});
    else
      sums[r] = add_neighbours<2>(add_neighbours<1>(row[0], row[1]),
                                  add_neighbours<1>(row[2], row[C - 1]));
  }
  sums[0] = add_neighbours<4>(sums[0], sums[rows > 1]);
  if constexpr (rows > 2) sums[2] = add_neighbours<4>(sums[2], sums[rows - 1]);
  sums[0] = add_neighbours<8>(sums[0], sums[rows > 2 ? 2 : 0]);
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    constexpr auto mask = static_cast<__mmask8>((1 << C) - 1);
    float* out = tile + (first + r) * tile_stride;
    __m128 sum = _mm512_maskz_extractf32x4_ps(mask, sums[0], r);
    if (accumulate) sum = _mm_add_ps(_mm_maskz_loadu_ps(mask, out), sum);
    _mm_mask_storeu_ps(out, mask, sum);
  }
  if constexpr (first + rows < R) add_lanes<first + rows, R, C>(acc, tile, tile_stride, accumulate);
}

// tile[R][C] (+)= the products of R rows and C columns. kFetched: prefetches that many columns.
template <int R, int C, int kFetched>
void dot_tile_of(const DotOperands& o, float* __restrict tile, i64 tile_stride, bool accumulate) {
  const auto left = [&](int r, i64 k) __attribute__((always_inline)) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(o.a + r * o.a_stride + k));
  };
  __m512 acc[R][C] = {};
  i64 k = 0;
  for (; k + kDotStepDepth <= o.depth; k += kDotStepDepth) {
    __m512bh right[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      right[c] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(o.b + c * o.b_stride + k));
// Into the first-level cache: with the second one alone, a product takes 5 to 10 % longer.
#pragma GCC unroll 4
    for (int c = 0; c < kFetched; ++c) __builtin_prefetch(o.next + c * o.b_stride + k, 0, 3);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512bh row = left(r, k);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) acc[r][c] = _mm512_dpbf16_ps(acc[r][c], row, right[c]);
    }
  }
  if (k < o.depth) {
    const auto rest = static_cast<__mmask32>((1u << (o.depth - k)) - 1);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const auto right =
          reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(rest, o.b + c * o.b_stride + k));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[r][c] = _mm512_dpbf16_ps(acc[r][c], left(r, k), right);
    }
  }
  add_lanes<0, R, C>(acc, tile, tile_stride, accumulate);
}

using DotTile = void (*)(const DotOperands&, float*, i64, bool);

constexpr int columns_of_tile(i64 rows) {
  return rows <= kDotTileRows ? kDotTileCols : kTallTileCols;
}

// Columns that a tile prefetches if `wanted` are left: what doesn't occur, or is rare, has no code
// of its own. A tile of few rows is the only one of its block.
constexpr int columns_fetched(int rows, int wanted) {
  if (rows <= 3) return wanted == 0 ? 0 : kDotTileCols;
  return smaller(wanted, rows <= kDotTileRows ? 2 : kTallTileCols);
}

template <int kWanted, int... R>
GEX_INLINE DotTile dot_tile_of_rows(i64 rows) {
  static_assert(sizeof...(R) == kTallTileRows);
  static constexpr DotTile table[] = {
      &dot_tile_of<R, columns_of_tile(R), columns_fetched(R, kWanted)>...};
  return table[rows - 1];
}
template <int kWanted>
DotTile dot_tile_fetching(i64 rows) {
  return dot_tile_of_rows<kWanted, 1, 2, 3, 4, 5, 6, 7, 8>(rows);
}

DotTile dot_tile(i64 rows, i64 fetched) {
  return fetched == 0   ? dot_tile_fetching<0>(rows)
         : fetched == 1 ? dot_tile_fetching<1>(rows)
         : fetched == 2 ? dot_tile_fetching<2>(rows)
                        : dot_tile_fetching<kDotTileCols>(rows);
}

// tile[rows][1] (+)= a * one column.
void multiply_column(i64 rows, const DotOperands& operands, float* tile, i64 tile_stride,
                     bool accumulate) {
  static_assert(kDotTileRows == 6);
  static constexpr DotTile table[] = {&dot_tile_of<1, 1, 0>, &dot_tile_of<2, 1, 0>,
                                      &dot_tile_of<3, 1, 0>, &dot_tile_of<4, 1, 0>,
                                      &dot_tile_of<5, 1, 0>, &dot_tile_of<6, 1, 0>};
  DotOperands o = operands;
  for (i64 r = 0; r < rows; r += kDotTileRows, o.a += kDotTileRows * o.a_stride)
    table[smaller(rows - r, i64{kDotTileRows}) - 1](o, tile + r * tile_stride, tile_stride,
                                                    accumulate);
}

// tile[rows][cols] (+)= a * a block of columns. As many columns from `next` on are prefetched, one
// after another and evenly over all tiles, because many requests at once wait for each other.
template <class AfterTile>
void multiply_block(i64 rows, i64 cols, const DotOperands& operands, float* tile, i64 tile_stride,
                    bool accumulate, const AfterTile& after_tile) {
  const i64 groups = ceil_div(rows, i64{rows <= 2 * kTallTileRows ? kTallTileRows : kDotTileRows});
  for (i64 g = 0; g < groups; ++g) {
    const i64 first = rows * g / groups, count = rows * (g + 1) / groups - first;
    const i64 width = columns_of_tile(count);
    DotOperands o = operands;
    o.a += first * o.a_stride;
    float* out = tile + first * tile_stride;
    i64 c = 0;
    for (; c + width <= cols; c += width) {
      const i64 done = g * cols + c, fetched = done / groups;
      const i64 now = operands.next ? (done + width) / groups - fetched : 0;
      if (now > 0) o.next = operands.next + fetched * o.b_stride;
      dot_tile(count, now)(o, out + c, tile_stride, accumulate);
      after_tile();
      o.b += width * o.b_stride;
    }
    for (; c < cols; ++c, o.b += o.b_stride)
      multiply_column(count, o, out + c, tile_stride, accumulate);
  }
}

GEX_INLINE bool reads_columns_in_place(const MatmulContext& c, const i64* dims) {
  return !c.prologues[1].fn && columns_in_place(c.a, c.b, c.b_packed, c.any_rows, dims);
}

struct DotMatmul : PairLaunch {
  std::uint32_t* packed;
  i64 slice_depth, stride;  // the latter of packed rows, in pairs

  DotMatmul(const MatmulContext& c, void* const* b, const i64* d, std::byte* s)
      : PairLaunch(c, b, d, s),
        packed(reinterpret_cast<std::uint32_t*>(scratch.left)),
        slice_depth(round_up(ceil_div(depth, ceil_div(depth, kDotSliceDepth)), kDotStepDepth)),
        // Another line of cache, so that rows fall into different sets.
        stride(slice_depth / 2 + 16) {}

  i64 slices() const { return ceil_div(depth, slice_depth); }
  i64 depth_of(i64 slice) const { return smaller(slice_depth, depth - slice * slice_depth); }

  void pack_slice(std::uint32_t* to, const MatrixView& a, i64 row, i64 height, i64 slice) {
    const i64 count = depth_of(slice), pairs = ceil_div(count, 2);
    pack_pairs_of_rows(to, stride, a, row, height, slice * slice_depth, count);
    for (i64 r = 0; r < height; ++r)
      for (i64 p = pairs; p < slice_depth / 2; ++p) to[r * stride + p] = 0;
  }

  // `whole`: all slices of the rows are packed side by side.
  void run_rows(i64 batch, i64 row, i64 height, i64 col0, i64 col1, bool whole) {
    const MatrixView a = left(batch), b = right(batch);
    const BF16* columns = start_of(b);
    for (i64 s = 0; whole && s < slices(); ++s)
      pack_slice(packed + s * height * stride, a, row, height, s);
    for (i64 col = col0; col < col1; col += kTileCols) {
      const i64 width = smaller(kTileCols, col1 - col), step = tile_stride<float>(width);
      for (i64 s = 0; s < slices(); ++s) {
        std::uint32_t* rows_of_a = packed + (whole ? s * height * stride : 0);
        if (!whole) pack_slice(rows_of_a, a, row, height, s);
        for (i64 c = 0; c < width; c += kDotBlockCols) {
          // Of the block that follows in the order of this loop nest.
          i64 next = col + c + kDotBlockCols, next_slice = s;
          if (c + kDotBlockCols >= width) {
            next_slice = (s + 1) % slices();
            next = next_slice == 0 ? col + width : col;
          }
          const DotOperands operands{reinterpret_cast<const BF16*>(rows_of_a),
                                     2 * stride,
                                     columns + (col + c) * b.col_stride + s * slice_depth,
                                     b.col_stride,
                                     depth_of(s),
                                     columns + next * b.col_stride + next_slice * slice_depth};
          multiply_block(height, smaller(kDotBlockCols, width - c), operands, scratch.tile + c,
                         step, s > 0, [] {});
        }
      }
      finish(batch, row, height, col, width);
    }
  }

  void run(i64 begin, i64 end) {
    static_assert(kDotBlockRows * (kDotSliceDepth / 2 + 16) <=
                  kLeftRows * kDepthStride + kTileCols * kDepth);
    static_assert(kDotBlockRows * kTileCols <= kTileElements);
    static_assert(kDotSliceDepth <= kStagedElements);
    constexpr i64 space = kLeftRows * kDepthStride + kTileCols * kDepth;
    const i64 whole_rows = space / (slices() * stride);
    for_each_part(begin, end, [&](i64 batch, i64 row0, i64 row1, i64 col0, i64 col1) {
      const i64 height = row1 - row0;
      i64 blocks = ceil_div(height, kDotBlockRows);
      // Rows that a prologue computes are computed once, even if blocks are smaller then.
      if (is_computed(context) && whole_rows >= kDotBlockRows / 3)
        blocks = larger(blocks, ceil_div(height, whole_rows));
      for (i64 i = 0; i < blocks; ++i) {
        const i64 first = height * i / blocks, count = height * (i + 1) / blocks - first;
        run_rows(batch, row0 + first, count, col0, col1, count <= whole_rows);
      }
    });
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
