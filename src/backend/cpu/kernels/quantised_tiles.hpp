#pragma once
// The constants behind the grid and scratch formulas of matmuls with quantised weights.

#include <cstdint>

namespace gex::kernels {

// A unit of the grid.
inline constexpr std::int64_t kQuantisedRows = 60;
inline constexpr std::int64_t kQuantisedColumns = 64;
// Rows of both operands are padded to whole blocks of this many elements.
inline constexpr std::int64_t kQuantisedBlock = 64;
// At most this many rows are multiplied by weights that are widened in registers.
inline constexpr std::int64_t kQuantisedFewRows = 2;
// Columns whose weights are widened at a time.
inline constexpr std::int64_t kQuantisedWidened = 4;

}  // namespace gex::kernels
