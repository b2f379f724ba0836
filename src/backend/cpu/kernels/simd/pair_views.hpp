#pragma once
// Matrices of bf16 as pairs, from memory or computed by a prologue.

#include <cstdint>

#include "backend/cpu/kernels/simd/pairs.hpp"
#include "backend/cpu/kernels/simd/tile_io.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

// A block of a matrix as bf16 in memory. Elements computed by a prologue are already rounded to
// bf16; at most kStagedElements.
inline MatrixView bf16_in_memory(const MatrixView& m, i64 row, i64 rows, i64 col, i64 cols) {
  MatrixView block = m;
  if (!m.computed) {
    block.offset += row * m.row_stride + col * m.col_stride;
    return block;
  }
  auto* values = reinterpret_cast<float*>(m.computed->staging);
  const MatrixView wide = computed_block(values, m, row, rows, col, cols);
  auto* halves = reinterpret_cast<std::uint16_t*>(values);
  for (i64 i = 0; i < rows * cols; i += kLanes<float>) {
    const auto bits = reinterpret_cast<VecU32>(load<float>(values + i));
    *reinterpret_cast<VecTraits<float, std::uint16_t>::unaligned*>(halves + i) =
        __builtin_convertvector(bits >> 16, VecU16Half);
  }
  return {halves, DType::bf16, 0, wide.row_stride, wide.col_stride};
}

GEX_INLINE const BF16* start_of(const MatrixView& m) {
  return static_cast<const BF16*>(m.data) + m.offset;
}

// Blocks that a prologue can compute at once: fn(row, rows, column, columns), with even numbers of
// rows and columns wherever more follow. One block if the matrix is in memory.
template <class Fn>
GEX_INLINE void for_each_staged_block(const MatrixView& m, i64 rows, i64 cols, const Fn& fn) {
  constexpr i64 kMostCols = 2048;
  const i64 wide = m.computed ? smaller(cols, kMostCols) : cols;
  const i64 high = m.computed ? kStagedElements / larger(i64{1}, wide) / 2 * 2 : rows;
  for (i64 r = 0; r < rows; r += high)
    for (i64 c = 0; c < cols; c += wide) fn(r, smaller(high, rows - r), c, smaller(wide, cols - c));
}

// to[row][stride] from `rows` rows and `cols` columns; a pair is of neighbouring columns.
inline void pack_pairs_of_rows(std::uint32_t* to, i64 stride, const MatrixView& a, i64 row,
                               i64 rows, i64 col, i64 cols) {
  for_each_staged_block(a, rows, cols, [&](i64 r, i64 high, i64 c, i64 wide) {
    const MatrixView m = bf16_in_memory(a, row + r, high, col + c, wide);
    const PairSource source{start_of(m), m.row_stride, m.col_stride, high, wide};
    std::uint32_t* dst = to + r * stride + c / 2;
    if (m.col_stride == 1)
      pack_pairs_along_depth(dst, stride, source);
    else if (m.row_stride == 1)
      pack_pairs_transposed<false>(dst, stride, source);
    else
      pack_single_pairs(dst, stride, 1, source, 0, high, 0, source.pairs());
  });
}

// to[row / 2][column] likewise; a pair is of neighbouring rows.
inline void pack_pairs_of_columns(std::uint32_t* to, i64 stride, const MatrixView& a, i64 row,
                                  i64 rows, i64 col, i64 cols) {
  for_each_staged_block(a, rows, cols, [&](i64 r, i64 high, i64 c, i64 wide) {
    const MatrixView m = bf16_in_memory(a, row + r, high, col + c, wide);
    pack_pair_columns(to + r / 2 * stride + c, stride,
                      {start_of(m), m.col_stride, m.row_stride, wide, high});
  });
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
