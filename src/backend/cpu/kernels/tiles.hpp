#pragma once
// The constants behind every grid and scratch formula of this folder. A kernel may combine
// neighbouring units of its grid into larger blocks; results do not depend on that.

#include <cstdint>

// Marks a function that variants also call: always inlined, because the linker would keep one of
// its copies for all, which may use instructions that the machine lacks.
#define GEX_IN_EVERY_VARIANT [[gnu::always_inline]]

namespace gex::kernels {

// One unit of a matmul or conv grid: the smallest block of output that a worker can be given.
inline constexpr std::int64_t kUnitRows = 96;
inline constexpr std::int64_t kUnitCols = 64;

// The block of output that one worker accumulates, and the rows of the left operand that are packed
// at a time. Packed operands stay in the second-level cache; the tile itself passes through it once
// for each slice of K, so it may be larger: a tall tile packs the right operand less often.
inline constexpr std::int64_t kTileCols = 384;
inline constexpr std::int64_t kTileElements = 384 * kTileCols;
inline constexpr std::int64_t kLeftRows = 192;

// How much of K is packed at once, and the row stride of a packed left operand. The stride is not a
// power of two, so the rows that a micro-kernel reads together fall into different cache sets.
inline constexpr std::int64_t kDepth = 256;
inline constexpr std::int64_t kDepthStride = kDepth + 16;

// A packed right operand consists of panels with this many bytes of accumulator type for each k.
inline constexpr std::int64_t kPanelBytes = 128;

// At most this many rows (or columns) run without packing the large operand: it is read once, so
// memory bandwidth is the cost.
inline constexpr std::int64_t kFewRows = 8;
inline constexpr std::int64_t kFewRowsDepth = 4096;

// Matmuls of bf16 pairs read contiguous columns in place for at most this many rows, and if K has
// this many elements for each row.
inline constexpr std::int64_t kMostDotRows = 256;
inline constexpr std::int64_t kDepthOfDotRow = 4;
// Up to this many rows, few_rows is at least as fast.
inline constexpr std::int64_t kFewRowsWithoutPairs = 6;

// Attention: query rows of one unit, most rows of the units that share copies of keys and values,
// and keys of one online-softmax step.
inline constexpr std::int64_t kQueryRows = 96;
inline constexpr std::int64_t kQueryBlock = 8 * kQueryRows;
inline constexpr std::int64_t kKeyBlock = 128;

// Maximum extra buffers of an epilogue, and inputs of a prologue.
inline constexpr int kMaxEpilogueBuffers = 60;
inline constexpr int kMaxPrologueInputs = 30;

// Staging memory of a prologue, in elements of accumulator type, for elements that are then moved
// to another layout. A problem with computed operands has this after its other scratch.
inline constexpr std::int64_t kStagedElements = 8192;

}  // namespace gex::kernels
