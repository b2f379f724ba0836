#pragma once
// The fixed sizes behind every grid and scratch formula of this folder. A kernel may join
// neighbouring units of its grid into larger blocks, but no result depends on how they are joined.

#include <cstdint>

// A function that variants call, too: as a part of its caller, for the linker would keep one of its
// copies for all, with vectors that not every machine has.
#define GEX_IN_EVERY_VARIANT [[gnu::always_inline]]

namespace gex::kernels {

// One unit of a matmul or conv grid: the smallest piece of output a worker can be given.
inline constexpr std::int64_t kUnitRows = 96;
inline constexpr std::int64_t kUnitCols = 64;

// The block of output that one worker accumulates, and the rows of the left operand that are packed
// at a time. Packed operands stay in the second-level cache; the tile itself passes through it once
// for each slice of K, so it may be larger: a tall tile packs the right operand less often.
inline constexpr std::int64_t kTileCols = 384;
inline constexpr std::int64_t kTileElements = 384 * kTileCols;
inline constexpr std::int64_t kLeftRows = 192;

// How much of K is packed at once, and the row stride of a packed left operand. The stride is not
// a power of two, so the rows that a micro-kernel reads at once fall into different cache sets.
inline constexpr std::int64_t kDepth = 256;
inline constexpr std::int64_t kDepthStride = kDepth + 16;

// A packed right operand consists of panels of this many bytes of accumulator type for each k.
inline constexpr std::int64_t kPanelBytes = 128;

// At most this many rows (or columns) run without packing the large operand: it is read once, so
// its bytes are the cost.
inline constexpr std::int64_t kFewRows = 8;
inline constexpr std::int64_t kFewRowsDepth = 4096;

// Attention: query rows of one unit and keys of one online-softmax step.
inline constexpr std::int64_t kQueryRows = 96;
inline constexpr std::int64_t kKeyBlock = kDepth;

// Extra buffers that an epilogue may use, and inputs that a prologue may have.
inline constexpr int kMaxEpilogueBuffers = 60;
inline constexpr int kMaxPrologueInputs = 30;

// Elements of accumulator type where a prologue leaves what is then moved to another layout. A
// problem with computed operands has this much behind the scratch that it needs without them.
inline constexpr std::int64_t kStagedElements = 8192;

}  // namespace gex::kernels
