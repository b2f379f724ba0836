#pragma once
// Matmuls with quantised weights (problems/quantised_matmul.hpp). Two forms:
//
// - one or two rows: weights are widened in registers, so that the cost is reading them once;
// - more rows: four columns of weights at a time are widened into memory that stays in the
//   first-level cache and multiplied by up to kQuantisedRows rows.
//
// Sums of a row never depend on other rows within a form, nor on how the grid is split.

#include "backend/cpu/kernels/quantised_tiles.hpp"
#include "backend/cpu/kernels/simd/quantised_rows.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

constexpr int kWidened = kQuantisedWidened;
constexpr int kDotRows = kVectorBytes == 64 ? 6 : 3;  // as many as there are registers for

// sums[R][4] = a[R][depth] . w[4][depth]
template <class E, int R>
void dot_tile(i64 depth, const E* __restrict a, const E* __restrict w, i64 stride,
              float* __restrict sums, i64 sums_stride) {
  Vec<float> acc[R][kWidened] = {};
  for (i64 k = 0; k < depth; k += kDotStep<E>) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kWidened; ++c)
        acc[r][c] = dot_step(acc[r][c], a + r * stride + k, w + c * stride + k);
    }
  }
  float each[R * kWidened];
  sum_lanes_of_each<float, R * kWidened>(&acc[0][0], each);
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < kWidened; ++c) sums[r * sums_stride + c] = each[r * kWidened + c];
}

template <class E>
void dot_rows(i64 rows, i64 depth, const E* a, const E* w, i64 stride, float* sums,
              i64 sums_stride) {
  using Fn = void (*)(i64, const E*, const E*, i64, float*, i64);
  static constexpr Fn table[] = {&dot_tile<E, 1>, &dot_tile<E, 2>, &dot_tile<E, 3>,
                                 &dot_tile<E, 4>, &dot_tile<E, 5>, &dot_tile<E, 6>};
  static_assert(kDotRows <= 6);
  // Blocks of about the same size.
  for (i64 blocks = ceil_div(rows, kDotRows); blocks > 0; --blocks) {
    const i64 count = ceil_div(rows, blocks);
    table[count - 1](depth, a, w, stride, sums, sums_stride);
    a += count * stride;
    sums += count * sums_stride;
    rows -= count;
  }
}

// One launch, or a range of its grid.
struct QuantisedLaunch : QuantisedOperands {
  BoundEpilogue epilogue;
  i64 rows, columns;

  QuantisedLaunch(const QuantisedContext& c, void* const* b, const i64* d, std::byte* scratch)
      : QuantisedOperands(c, b, d, scratch),
        epilogue(c.epilogue, b + c.operands, d, space.rest),
        rows(d[quantised_dims::m]),
        columns(d[quantised_dims::n]) {}

  void run(i64 begin, i64 end) {
    const i64 column_units = ceil_div(columns, kQuantisedColumns);
    i64 prepared = -1;
    for (i64 unit = begin; unit < end; ++unit) {
      const i64 row = unit / column_units * kQuantisedRows;
      const i64 height = smaller(kQuantisedRows, rows - row);
      const i64 column = unit % column_units * kQuantisedColumns;
      const i64 width = smaller(kQuantisedColumns, columns - column);
      const bool first = prepared != row;
      prepared = row;
      if (!few_rows(*this, row, height, column, width, first))
        widened(row, height, column, width, first);
      for (i64 r = 0; r < height; ++r)
        finish_row(row + r, column, width, space.sums + r * kQuantisedColumns);
    }
  }

  void widened(i64 row, i64 height, i64 column, i64 width, bool first) {
#if defined(__AVX512BF16__)
    if (context.a == DType::bf16) return widened_as<BF16>(row, height, column, width, first);
#endif
    widened_as<float>(row, height, column, width, first);
  }

  template <class E>
  void widened_as(i64 row, i64 height, i64 column, i64 width, bool first) {
    E* a = reinterpret_cast<E*>(space.left);
    E* w = reinterpret_cast<E*>(space.weights);
    if (first) prepare<E>(a, row, height);
    for (i64 c = 0; c < width; c += kWidened) {
      for (i64 j = 0; j < kWidened; ++j)
        widen_column<E>(w + j * padded, smaller(column + c + j, columns - 1));
      dot_rows<E>(height, padded, a, w, padded, space.sums + c, kQuantisedColumns);
    }
    if (!scales_last()) return;
    for (i64 c = 0; c < width; ++c) {
      const float scale = scale_at(column + c, 0);
      for (i64 r = 0; r < height; ++r) space.sums[r * kQuantisedColumns + c] *= scale;
    }
  }

  void finish_row(i64 row, i64 column, i64 width, const float* values) {
    if (context.epilogue.fn) return epilogue.run(values, row * columns + column, width);
    const i64* strides = dims + quantised_dims::c_strides;
    store_row(values, width, context.c, buffers[context.operands],
              row * strides[0] + column * strides[1], strides[1]);
  }
};

void quantised_matmul(const void* context, void* const* buffers, const std::int64_t* dims,
                      std::int64_t begin, std::int64_t end, std::byte* scratch) {
  QuantisedLaunch(*static_cast<const QuantisedContext*>(context), buffers, dims, scratch)
      .run(begin, end);
}

}  // namespace
}  // namespace gex::kernels::GEX_VARIANT
