#pragma once
// Matmuls with quantised weights (problems/quantised_matmul.hpp). The forms:
//
// - few rows: weights are widened in registers, so that the cost is reading them once;
// - more rows: four columns of weights at a time are widened into memory that stays in the
//   first-level cache and multiplied by up to kQuantisedRows rows; with dot products of bf16 all
//   columns of a unit, which stay in the second-level cache, as in matmul_by_dots.hpp.
//
// Sums of a row never depend on other rows within a form, nor on how the grid is split.

#include "backend/cpu/kernels/quantised_tiles.hpp"
#if defined(__AVX512BF16__)
#include "backend/cpu/kernels/simd/matmul_by_dots.hpp"
#endif
#include "backend/cpu/kernels/simd/quantised_rows.hpp"
#include "backend/cpu/kernels/simd/quantised_several_rows.hpp"

namespace gex::kernels::GEX_VARIANT {
namespace {

constexpr int kWidened = kQuantisedWidened;
constexpr int kDotRows = kVectorBytes == 64 ? 6 : 3;  // as many as there are registers for

// sums[R][4] = a[R][depth] . w[4][depth]
template <int R>
void widened_tile(i64 depth, const float* __restrict a, const float* __restrict w, i64 stride,
                  float* __restrict sums, i64 sums_stride) {
  Vec<float> acc[R][kWidened] = {};
  for (i64 k = 0; k < depth; k += kLanes<float>) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kWidened; ++c)
        acc[r][c] =
            mul_add(load<float>(a + r * stride + k), load<float>(w + c * stride + k), acc[r][c]);
    }
  }
  float each[R * kWidened];
  sum_lanes_of_each<float, R * kWidened>(&acc[0][0], each);
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < kWidened; ++c) sums[r * sums_stride + c] = each[r * kWidened + c];
}

inline void dot_rows(i64 rows, i64 depth, const float* a, const float* w, i64 stride, float* sums,
                     i64 sums_stride) {
  using Fn = void (*)(i64, const float*, const float*, i64, float*, i64);
  static constexpr Fn table[] = {&widened_tile<1>, &widened_tile<2>, &widened_tile<3>,
                                 &widened_tile<4>, &widened_tile<5>, &widened_tile<6>};
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

// Prefetches bytes [from, until) of adjacent columns, some lines of cache at a time.
struct ColumnPrefetch {
  Bytes first;
  i64 stride, columns, from, until, at, column = 0;

  ColumnPrefetch(Bytes of_first, i64 column_stride, i64 count, i64 begin, i64 end)
      : first(of_first),
        stride(column_stride),
        columns(count),
        from(begin),
        until(end),
        at(begin) {}

  i64 lines() const { return columns * ceil_div(until - from, 64); }
  void fetch_some(i64 count) {
    for (; count > 0 && column < columns; --count) {
      fetch(first + column * stride + at);
      at += 64;
      if (at < until) continue;
      at = from;
      ++column;
    }
  }
};

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
      multiply(row, height, column, width, first);
      for (i64 r = 0; r < height; ++r)
        finish_row(row + r, column, width, space.sums + r * kQuantisedColumns);
    }
  }

  void multiply(i64 row, i64 height, i64 column, i64 width, bool first) {
    if (few_rows(*this, row, height, column, width, first)) return;
#if defined(__AVX512BF16__)
    if (several_rows(*this, row, height, column, width, first)) return;
#endif
    widened(row, height, column, width, first);
  }

  void widened(i64 row, i64 height, i64 column, i64 width, bool first) {
#if defined(__AVX512BF16__)
    if (context.a == DType::bf16) return staged(row, height, column, width, first);
#endif
    auto* a = reinterpret_cast<float*>(space.left);
    auto* w = reinterpret_cast<float*>(space.weights);
    if (first) prepare<float>(a, row, height);
    for (i64 c = 0; c < width; c += kWidened) {
      for (i64 j = 0; j < kWidened; ++j)
        widen_column<float>(w + j * padded, smaller(column + c + j, columns - 1), 0, padded);
      dot_rows(height, padded, a, w, padded, space.sums + c, kQuantisedColumns);
    }
    if (scales_last()) scale_sums(height, column, width);
  }

#if defined(__AVX512BF16__)
  void staged(i64 row, i64 height, i64 column, i64 width, bool first) {
    auto* a = reinterpret_cast<BF16*>(space.left);
    auto* w = reinterpret_cast<BF16*>(space.weights);
    constexpr i64 stride = kQuantisedStagedStride;
    if (first) prepare<BF16>(a, row, height);
    const i64 slices = larger(ceil_div(padded, kQuantisedStagedDepth), i64{1});
    const i64 slice = larger(round_up(ceil_div(padded, slices), kQuantisedBlock), kQuantisedBlock);
    const i64 bytes_of_8 = context.bits == 4 ? 4 : 8;
    for (i64 k = 0; k == 0 || k < padded; k += slice) {
      const i64 end = smaller(k + slice, padded);
      for (i64 c = 0; c < width; ++c) widen_column<BF16>(w + c * stride, column + c, k, end);
      // What is widened next: the following slice, or the unit that probably follows.
      const bool same = end < padded;
      const i64 from = same ? end : 0, until = same ? smaller(end + slice, depth) : slice;
      ColumnPrefetch next(this->column(same ? column : column + kQuantisedColumns),
                          dims[quantised_dims::q_strides], along_depth() ? width : 0,
                          from / 8 * bytes_of_8, until / 8 * bytes_of_8);
      const i64 tiles = ceil_div(height, i64{kDotTileRows}) * ceil_div(width, i64{kDotTileCols});
      const i64 each = ceil_div(next.lines(), tiles);
      multiply_block(height, width, {a + k, padded, w, stride, end - k, nullptr}, space.sums,
                     kQuantisedColumns, k > 0, [&] { next.fetch_some(each); });
    }
    if (scales_last()) scale_sums(height, column, width);
  }
#endif

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
