#pragma once
// C[b] = A[b] * B[b] of bf16 matrices by dot products of pairs. Both operands are packed as pairs;
// a slice of one panel of B stays in the first-level cache while it is multiplied by all rows of A.
// As in gemm.hpp, the order of additions of an output element depends only on K: products of one
// slice are summed in registers, then added to the tile.

#include <cstdint>

#include "backend/cpu/kernels/simd/matmul_by_dots.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

constexpr i64 kSlicePairs = kDepth / 2;
constexpr i64 kPairStride = kDepthStride / 2;  // of rows of a packed A, in pairs
constexpr i64 kPairPanel = kPanel<float>;      // columns
constexpr i64 kPanelSlice = kSlicePairs * kPairPanel;

// c[R][kVectors vectors] (+)= a[R][pairs] * b[pairs][panel]. kFetch: prefetches the slice after
// `b`.
template <int R, int kVectors, bool kFetch>
void pair_kernel(i64 pairs, const std::uint32_t* __restrict a, const std::uint32_t* __restrict b,
                 float* __restrict c, i64 c_stride, bool accumulate) {
  constexpr int lanes = kLanes<float>;
  __m512 acc[R][kVectors] = {};
  for (i64 k = 0; k < pairs; ++k, b += kPairPanel) {
    __m512bh right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      right[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + v * lanes));
      if constexpr (kFetch) fetch(b + kPanelSlice + v * lanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto left =
          reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[r * kPairStride + k])));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], left, right[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* out = c + r * c_stride + v * lanes;
      const Vec<float> sum = acc[r][v];
      store(out, accumulate ? load<float>(out) + sum : sum);
    }
  }
}

using PairKernel = void (*)(i64, const std::uint32_t*, const std::uint32_t*, float*, i64, bool);

template <int kVectors, bool kFetch>
PairKernel pair_kernel_for(int rows) {
  static_assert(kMicroRows == 12);
  static constexpr PairKernel table[] = {
      &pair_kernel<1, kVectors, kFetch>,  &pair_kernel<2, kVectors, kFetch>,
      &pair_kernel<3, kVectors, kFetch>,  &pair_kernel<4, kVectors, kFetch>,
      &pair_kernel<5, kVectors, kFetch>,  &pair_kernel<6, kVectors, kFetch>,
      &pair_kernel<7, kVectors, kFetch>,  &pair_kernel<8, kVectors, kFetch>,
      &pair_kernel<9, kVectors, kFetch>,  &pair_kernel<10, kVectors, kFetch>,
      &pair_kernel<11, kVectors, kFetch>, &pair_kernel<12, kVectors, kFetch>};
  return table[rows - 1];
}

// tile[rows][cols, at most a panel] (+)= a * one panel. Rows in even groups, see gemm.hpp.
void multiply_pairs(i64 rows, i64 cols, i64 pairs, const std::uint32_t* a, const std::uint32_t* b,
                    float* tile, i64 tile_stride, bool accumulate, bool fetch_next) {
  const i64 groups = ceil_div(rows, kMicroRows);
  for (i64 g = 0; g < groups; ++g) {
    const i64 first = rows * g / groups;
    const int count = static_cast<int>(rows * (g + 1) / groups - first);
    const bool fetches = fetch_next && g == 0;
    const PairKernel kernel = cols > kLanes<float> ? fetches ? pair_kernel_for<2, true>(count)
                                                             : pair_kernel_for<2, false>(count)
                                                   : pair_kernel_for<1, false>(count);
    kernel(pairs, a + first * kPairStride, b, tile + first * tile_stride, tile_stride, accumulate);
  }
}

struct PairMatmul : PairLaunch {
  std::uint32_t *left_pairs, *right_pairs;
  i64 left_space;  // in rows of one slice

  PairMatmul(const MatmulContext& c, void* const* b, const i64* d, std::byte* s)
      : PairLaunch(c, b, d, s),
        left_pairs(reinterpret_cast<std::uint32_t*>(scratch.left)),
        right_pairs(reinterpret_cast<std::uint32_t*>(scratch.panels)),
        left_space((kLeftRows * kDepthStride + (c.b_packed ? kTileCols * kDepth : 0)) /
                   kPairStride) {}

  // One panel of one slice: [pair][panel]. If B is packed ahead of time, it is used in place.
  const std::uint32_t* panel_of(std::uint32_t* space, const MatrixView& b, i64 k, i64 slice,
                                i64 col) {
    if (context.b_packed)
      return reinterpret_cast<const std::uint32_t*>(start_of(b) + k * kPairPanel +
                                                    col * round_up(depth, 2));
    static_assert(kDepth * kPairPanel <= kStagedElements);
    const i64 width = smaller(kPairPanel, cols - col);
    const MatrixView m = bf16_in_memory(b, k, slice, col, width);
    pack_pair_columns(space, kPairPanel, {start_of(m), m.col_stride, m.row_stride, width, slice});
    for (i64 p = 0; p < ceil_div(slice, 2); ++p)
      for (i64 c = width; c < kPairPanel; ++c) space[p * kPairPanel + c] = 0;
    return space;
  }

  // Rows of A that are packed over the whole depth, so that B is read once, in order.
  void run_whole_depth(i64 batch, const MatrixView& a, const MatrixView& b, i64 row, i64 height,
                       i64 col0, i64 col1) {
    for (i64 k = 0; k < depth; k += kDepth)
      pack_pairs_of_rows(left_pairs + k / kDepth * height * kPairStride, kPairStride, a, row,
                         height, k, smaller(kDepth, depth - k));
    for (i64 col = col0; col < col1; col += kTileCols) {
      const i64 width = smaller(kTileCols, col1 - col), stride = tile_stride<float>(width);
      for (i64 c = 0; c < width; c += kPairPanel)
        for (i64 k = 0; k < depth; k += kDepth) {
          const i64 slice = smaller(kDepth, depth - k);
          multiply_pairs(height, width - c, ceil_div(slice, 2),
                         left_pairs + k / kDepth * height * kPairStride,
                         panel_of(right_pairs, b, k, slice, col + c), scratch.tile + c, stride,
                         k > 0, context.b_packed);
        }
      finish(batch, row, height, col, width);
    }
  }

  void run_slices(i64 batch, const MatrixView& a, const MatrixView& b, i64 row, i64 height, i64 col,
                  i64 width) {
    const i64 stride = tile_stride<float>(width);
    for (i64 i = 0; depth == 0 && i < height * stride; ++i) scratch.tile[i] = 0;
    for (i64 k = 0; k < depth; k += kDepth) {
      const i64 slice = smaller(kDepth, depth - k);
      const std::uint32_t* panels[kTileCols / kPairPanel];
      for (i64 c = 0; c < width; c += kPairPanel)
        panels[c / kPairPanel] =
            panel_of(right_pairs + c / kPairPanel * kPanelSlice, b, k, slice, col + c);
      for (i64 r = 0; r < height; r += left_space) {
        const i64 count = smaller(left_space, height - r);
        pack_pairs_of_rows(left_pairs, kPairStride, a, row + r, count, k, slice);
        for (i64 c = 0; c < width; c += kPairPanel)
          multiply_pairs(count, width - c, ceil_div(slice, 2), left_pairs, panels[c / kPairPanel],
                         scratch.tile + r * stride + c, stride, k > 0, false);
      }
    }
    finish(batch, row, height, col, width);
  }

  void run(i64 begin, i64 end) {
    static_assert(kTileCols / kPairPanel * kPanelSlice <= kTileCols * kDepth);
    constexpr i64 kMostRows = kTileElements / kTileCols, kWorthIt = 96;
    // If B has to be packed, it is packed for as many rows as possible.
    const i64 whole = smaller(kMostRows, left_space / larger(i64{1}, ceil_div(depth, kDepth)));
    const bool by_whole_depth =
        depth > 0 && (rows <= whole || (context.b_packed && whole >= kWorthIt));
    for_each_part(begin, end, [&](i64 batch, i64 row0, i64 row1, i64 col0, i64 col1) {
      const MatrixView a = left(batch), b = right(batch);
      if (!by_whole_depth)
        return for_each_tile<float>(row0, row1, col0, col1,
                                    [&](i64 row, i64 height, i64 col, i64 width) {
                                      run_slices(batch, a, b, row, height, col, width);
                                    });
      for (i64 row = row0; row < row1; row += whole)
        run_whole_depth(batch, a, b, row, smaller(whole, row1 - row), col0, col1);
    });
  }
};

void run_by_pairs(const void* context, void* const* buffers, const i64* dims, i64 begin, i64 end,
                  std::byte* scratch) {
  const auto& c = *static_cast<const MatmulContext*>(context);
  if (reads_columns_in_place(c, dims))
    DotMatmul(c, buffers, dims, scratch).run(begin, end);
  else
    PairMatmul(c, buffers, dims, scratch).run(begin, end);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
