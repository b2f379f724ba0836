#pragma once
// The constants behind the grid and scratch formulas of matmuls with quantised weights.

#include <cstdint>

namespace gex::kernels {

// A unit of the grid.
inline constexpr std::int64_t kQuantisedRows = 96;
inline constexpr std::int64_t kQuantisedColumns = 64;
// Rows of both operands are padded to whole blocks of this many elements.
inline constexpr std::int64_t kQuantisedBlock = 64;
// At most this many rows are multiplied by weights that are widened in registers once for all of
// them, and for a few at a time.
inline constexpr std::int64_t kQuantisedFewRows = 2;
inline constexpr std::int64_t kQuantisedSeveralRows = 12;
// Columns whose weights are widened at a time: a few over the whole depth in f32, or those of a
// unit over a slice of it in bf16, whose rows are padded against conflicts in the caches.
inline constexpr std::int64_t kQuantisedWidened = 4;
inline constexpr std::int64_t kQuantisedStagedDepth = 1536;
inline constexpr std::int64_t kQuantisedStagedStride = kQuantisedStagedDepth + 32;
// In floats.
inline constexpr std::int64_t kQuantisedStaged = kQuantisedColumns * kQuantisedStagedStride / 2;

}  // namespace gex::kernels
