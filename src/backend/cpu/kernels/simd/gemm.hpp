#pragma once
// The blocked matmul of one tile: pack a slice of K of both operands, run the register-blocked
// micro-kernel over it, add to the tile. The order of additions for an output element depends only
// on K, not on its tile or its position there.

#include "backend/cpu/kernels/matmul_scratch.hpp"
#include "backend/cpu/kernels/simd/pack.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// c[R][kVectors vectors] (+)= a[R][depth] * b[depth][panel]. Rows of `a` are kDepthStride apart.
template <class T, int R, int kVectors>
void micro_kernel(i64 depth, const T* __restrict a, const T* __restrict b, T* __restrict c,
                  i64 c_stride, bool accumulate) {
  constexpr int lanes = kLanes<T>;
  Vec<T> acc[R][kVectors] = {};
  for (i64 k = 0; k < depth; ++k) {
    Vec<T> right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = load<T>(b + k * kPanel<T> + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec<T> left = splat(a[r * kDepthStride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = mul_add(left, right[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      T* out = c + r * c_stride + v * lanes;
      store(out, accumulate ? load<T>(out) + acc[r][v] : acc[r][v]);
    }
  }
}

template <class T>
using MicroKernel = void (*)(i64, const T*, const T*, T*, i64, bool);

// Micro-kernels for every number of rows up to kMicroRows, so that no padded row is computed.
template <class T, int kVectors, int... R>
GEX_INLINE MicroKernel<T> micro_kernel_for(int rows) {
  static constexpr MicroKernel<T> table[] = {&micro_kernel<T, R, kVectors>...};
  return table[rows - 1];
}
template <class T, int kVectors>
GEX_INLINE MicroKernel<T> micro_kernel_for_rows(int rows) {
  if constexpr (kMicroRows == 12)
    return micro_kernel_for<T, kVectors, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>(rows);
  else
    return micro_kernel_for<T, kVectors, 1, 2, 3, 4, 5, 6>(rows);
}

// tile[rows][cols rounded up to whole vectors] (+)= a * panels, all packed.
template <class T>
void multiply_packed(i64 rows, i64 cols, i64 depth, const T* a, const T* panels, i64 panel_stride,
                     T* tile, i64 tile_stride, bool accumulate) {
  constexpr int lanes = kLanes<T>;
  const i64 groups = ceil_div(rows, kMicroRows);
  for (i64 g = 0; g < groups; ++g) {
    // Even groups: 64 rows run as 11+11+11+11+10+10, not as 12*5+4.
    const i64 first = rows * g / groups;
    const int count = static_cast<int>(rows * (g + 1) / groups - first);
    const MicroKernel<T> two = micro_kernel_for_rows<T, 2>(count);
    const MicroKernel<T> one = micro_kernel_for_rows<T, 1>(count);
    for (i64 c = 0; c < cols;) {
      const i64 in_panel = c % kPanel<T>;
      const T* b = panels + c / kPanel<T> * panel_stride + in_panel;
      const bool pair = cols - c > lanes && in_panel + 2 * lanes <= kPanel<T>;
      (pair ? two : one)(depth, a + first * kDepthStride, b, tile + first * tile_stride + c,
                         tile_stride, accumulate);
      c += pair ? 2 * lanes : lanes;
    }
  }
}

// Scratch of one tile, in elements.
template <class T>
struct TileScratch {
  T* tile;    // at most kTileElements: the narrower the tile, the more rows
  T* left;    // [at most kLeftRows][kDepthStride]
  T* panels;  // [at most kTileCols / panel][kDepth][panel]
  std::byte* rest;
};
template <class T>
GEX_INLINE TileScratch<T> tile_scratch(std::byte* scratch,
                                       const MatmulScratch<i64>& space = kLargestScratch) {
  TileScratch<T> s;
  s.tile = reinterpret_cast<T*>(scratch);
  s.left = s.tile + space.tile;
  s.panels = s.left + space.left;
  s.rest = reinterpret_cast<std::byte*>(s.panels + space.panels);
  return s;
}

// Follows it if an operand is computed.
template <class T>
constexpr i64 staged_bytes() {
  return kStagedElements * static_cast<i64>(sizeof(T));
}

template <class T>
GEX_INLINE i64 tile_stride(i64 cols) {
  return round_up(cols, kPanel<T>);
}
template <class T>
GEX_INLINE i64 tile_rows(i64 cols) {
  return kTileElements / tile_stride<T>(cols);
}

// Left: void operator()(T* dst, i64 row, i64 rows, i64 k, i64 depth) packs rows of the tile as
// [row][kDepthStride]. Right: const T* operator()(T* space, i64 k, i64 depth, i64& panel_stride)
// gives the tile's panels for that slice of K, packed into `space` or wherever they already are.
template <class T, class Left, class Right>
void multiply_tile(i64 rows, i64 cols, i64 depth, const Left& left, const Right& right,
                   const TileScratch<T>& s) {
  const i64 stride = tile_stride<T>(cols);
  if (depth == 0) {
    for (i64 i = 0; i < rows * stride; ++i) s.tile[i] = T{};
    return;
  }
  for (i64 k = 0; k < depth; k += kDepth) {
    const i64 slice = smaller(kDepth, depth - k);
    i64 panel_stride = kDepth * kPanel<T>;
    const T* panels = right(s.panels, k, slice, panel_stride);
    for (i64 r = 0; r < rows; r += kLeftRows) {
      const i64 count = smaller(kLeftRows, rows - r);
      left(s.left, r, count, k, slice);
      multiply_packed(count, cols, slice, s.left, panels, panel_stride, s.tile + r * stride, stride,
                      k > 0);
    }
  }
}

// Splits a rectangle of the output into tiles: fn(row, rows, col, cols).
template <class T, class Fn>
void for_each_tile(i64 row0, i64 row1, i64 col0, i64 col1, const Fn& fn) {
  for (i64 c = col0; c < col1; c += kTileCols) {
    const i64 width = smaller(kTileCols, col1 - c), step = tile_rows<T>(width);
    for (i64 r = row0; r < row1; r += step) fn(r, smaller(step, row1 - r), c, width);
  }
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
