#pragma once
// Scratch memory of a blocked matmul; used by the kernel and by the launch's size formula.

#include <cstdint>
#include <type_traits>

#include "backend/cpu/kernels/tiles.hpp"
#include "base/dtype.hpp"

namespace gex::kernels {

// Products with few rows (or columns): the columns of a tile with one row, with r rows 1/r of it.
inline constexpr std::int64_t kFewCols = 4096;
// A block of a computed operand of such a product.
inline constexpr std::int64_t kComputedDepth = 1024, kComputedCols = 4;
// The row stride of their packed small operand. It is not a multiple of 32 elements, so the rows
// fall into different cache sets.
GEX_IN_EVERY_VARIANT constexpr std::int64_t few_stride(std::int64_t depth) {
  const std::int64_t packed = depth < kFewRowsDepth ? depth : kFewRowsDepth;
  return (packed + 31) / 32 * 32 + 16;
}

// In elements of the accumulator type. Sizes are numbers or Dims.
template <class Size>
struct MatmulScratch {
  Size tile, left, panels;

  GEX_IN_EVERY_VARIANT constexpr Size elements() const { return tile + left + panels; }
};

inline constexpr MatmulScratch<std::int64_t> kLargestScratch{kTileElements, kLeftRows* kDepthStride,
                                                             kTileCols* kDepth};
static_assert(kFewRows * few_stride(kFewRowsDepth) <= kLargestScratch.left);
static_assert(kFewCols <= kLargestScratch.tile);
static_assert(kComputedDepth * kComputedCols <= kLargestScratch.panels);

template <class Size>
GEX_IN_EVERY_VARIANT constexpr Size least(Size a, Size b) {
  if constexpr (std::is_integral_v<Size>)
    return a < b ? a : b;
  else
    return min(a, b);
}
template <class Size>
GEX_IN_EVERY_VARIANT constexpr Size most(Size a, Size b) {
  if constexpr (std::is_integral_v<Size>)
    return a < b ? b : a;
  else
    return max(a, b);
}
// To whole panels of any dtype.
template <class Size>
GEX_IN_EVERY_VARIANT constexpr Size padded(Size a) {
  if constexpr (std::is_integral_v<Size>)
    return (a + 31) / 32 * 32;
  else
    return floordiv(a + Size(31), Size(32)) * Size(32);
}

// What determines, besides the sizes, whether operands have to be packed.
struct RightOperand {
  bool as_packed;  // in panels that were packed ahead of time and need no conversion
  bool computed;   // this or the left operand
};
GEX_IN_EVERY_VARIANT constexpr RightOperand right_operand(DType a, DType b, bool b_packed,
                                                          bool computed) {
  return {b_packed && b == (a == DType::f64 ? DType::f64 : DType::f32), computed};
}
// Whether the kernel of bf16_pairs.hpp may compute the product.
GEX_IN_EVERY_VARIANT constexpr bool reads_pairs(DType a, DType b) {
  return a == DType::bf16 && b == DType::bf16;
}

// What a product of these sizes needs in any form that can compute it. Each part is a multiple of
// 16 elements and at most that of kLargestScratch.
template <class Size>
GEX_IN_EVERY_VARIANT constexpr MatmulScratch<Size> matmul_scratch(Size m, Size n, Size k,
                                                                  RightOperand right) {
  constexpr std::int64_t kPanel = 32, kMicroRows = 12;  // the most of any variant and dtype
  const Size width = least(padded(n), Size(kTileCols));
  const Size height = least(padded(m), Size(kTileCols));
  // Packed; in place and transposed: a block of rows and its transposed copy; few rows.
  const Size tile = most(most(m, Size(2 * kPanel)) * width, Size(kFewCols));
  // Packed; in place; few rows or columns.
  const Size left = most(least(m, Size(kLeftRows)) * Size(kDepthStride),
                         Size(kMicroRows) * (padded(k) + Size(16)));
  Size panels(0);
  // Packed; in place, with a panel of columns that do not fill a vector.
  if (!right.as_packed) panels = width * Size(kDepth);
  if (!right.as_packed && !right.computed)
    panels = most(panels, (width + Size(kPanel)) * padded(k));
  if (right.computed)
    panels = most(panels,
                  most(most(width, height) * Size(kDepth), Size(kComputedDepth * kComputedCols)));
  return {least(tile, Size(kLargestScratch.tile)), least(left, Size(kLargestScratch.left)),
          least(panels, Size(kLargestScratch.panels))};
}

}  // namespace gex::kernels
