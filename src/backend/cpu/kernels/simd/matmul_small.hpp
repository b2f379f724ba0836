#pragma once
// C = A * B for a rectangle of a small matmul whose operands have the accumulator's dtype. Either
// directly, or as the transposed product (B^T * A^T)^T if that leaves less to pack: the right
// operand must have adjacent columns, the left one is read in place.

#include "backend/cpu/kernels/simd/gemm_in_place.hpp"
#include "backend/cpu/kernels/simd/tile_io.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

template <class T>
struct SmallProduct {
  MatrixView a, b;
  i64 depth;
  TileScratch<T> scratch;

  // finish(values, row, col, count) receives finished elements, unless they can be written directly
  // to `result`: element (row, col) at result[row * result_stride + col].
  template <class Finish>
  void run(i64 row0, i64 row1, i64 col0, i64 col1, T* result, i64 result_stride,
           const Finish& finish) {
    for (i64 col = col0; col < col1; col += kTileCols) {
      const i64 width = smaller(kTileCols, col1 - col);
      const RightInPlace<T> right = right_operand(b, col, width);
      const bool straight = result != nullptr && width % kLanes<T> == 0;
      const i64 stride = straight ? result_stride : tile_stride<T>(width);
      for_each_row_group(row0, row1, [&](i64 row, int count) {
        T* out = straight ? result + row * result_stride + col : scratch.tile;
        multiply(a, row, count, width, right, out, stride);
        if (straight) return;
        for (int r = 0; r < count; ++r) finish(out + r * stride, row + r, col, width);
      });
    }
  }

  // The same as the transposed product: blocks of its result are transposed back.
  template <class Finish>
  void run_turned(i64 row0, i64 row1, i64 col0, i64 col1, const Finish& finish) {
    constexpr i64 block = kPanel<T>;
    const MatrixView left = b.transposed(), from = a.transposed();
    for (i64 row = row0; row < row1; row += block) {
      const i64 height = smaller(block, row1 - row);
      const RightInPlace<T> right = right_operand(from, row, height);
      for (i64 col = col0; col < col1; col += kTileCols) {
        const i64 width = smaller(kTileCols, col1 - col), stride = tile_stride<T>(width);
        T* turned = scratch.tile + stride * block;
        for_each_row_group(0, width, [&](i64 first, int count) {
          multiply(left, col + first, count, height, right, scratch.tile + first * block, block);
        });
        pack_contiguous_cols(turned, stride, height, width, scratch.tile, block);
        for (i64 r = 0; r < height; ++r) finish(turned + r * stride, row + r, col, width);
      }
    }
  }

 private:
  static const T* at(const MatrixView& m, i64 row, i64 col) {
    return static_cast<const T*>(m.data) + m.offset + row * m.row_stride + col * m.col_stride;
  }

  // Rows whose distance is a multiple of a page would map to one set of the first-level cache.
  void multiply(const MatrixView& left, i64 row, int count, i64 width, const RightInPlace<T>& right,
                T* out, i64 out_stride) {
    constexpr i64 page = 4096 / static_cast<i64>(sizeof(T));
    if (left.row_stride == 1)
      return multiply_in_place<T, true>(count, width, depth, {at(left, row, 0), 1, left.col_stride},
                                        right, out, out_stride);
    const T* rows_of_left = at(left, row, 0);
    i64 stride = left.row_stride;
    if (left.col_stride != 1 || stride % page == 0) {
      stride = depth + kLanes<T>;
      pack_view(scratch.left, stride, count, depth, left, row, 0);
      rows_of_left = scratch.left;
    }
    multiply_in_place<T, false>(count, width, depth, {rows_of_left, stride, 1}, right, out,
                                out_stride);
  }

  // Columns [col, col + width) of `m`, in place if possible.
  RightInPlace<T> right_operand(const MatrixView& m, i64 col, i64 width) {
    if (m.col_stride == 1) {
      const i64 whole = width / kLanes<T> * kLanes<T>;
      if (whole < width) pack_panel(scratch.panels, m, col + whole, width - whole);
      return {at(m, 0, col), m.row_stride, kPanel<T>, whole, scratch.panels};
    }
    for (i64 c = 0; c < width; c += kPanel<T>)
      pack_panel(scratch.panels + c * depth, m, col + c, smaller(kPanel<T>, width - c));
    return {scratch.panels, kPanel<T>, kPanel<T> * depth, round_up(width, kLanes<T>), nullptr};
  }
  void pack_panel(T* panel, const MatrixView& m, i64 col, i64 width) {
    pack_view(panel, kPanel<T>, depth, width, m, 0, col);
    zero_columns(panel, kPanel<T>, depth, width, kPanel<T>);
  }
};

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
