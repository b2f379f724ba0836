#pragma once
// The inner loops of products of 8-bit integers. One side is unsigned and the other signed, as the
// processor's dot product of four bytes (AVX512_VNNI) requires; integer_product.cpp shifts operands
// of other signs and corrects the sums.
//
// Left: rows of groups of four bytes along K, each row `left_stride` bytes. Right: panels of
// kPanelColumns columns [column][4 bytes] for each group of K: if left is unsigned, one after the
// other, those of neighbouring columns `panel_stride` bytes apart; if left is signed, those of
// group g from `offsets[g]` on, and neighbouring columns follow each other.

#include <cstdint>

namespace gex::kernels {

inline constexpr std::int64_t kPanelColumns = 16;
inline constexpr std::int64_t kGroupBytes = 4;
inline constexpr std::int64_t kPanelGroupBytes = kPanelColumns * kGroupBytes;
inline constexpr std::int64_t kIntegerTileRows = 12;  // sums of as many rows fill the registers

struct IntegerTile {
  const std::uint8_t* left;
  std::int64_t left_stride;
  const std::uint8_t* right;
  std::int64_t panel_stride;
  const std::int64_t* offsets;  // in bytes
  std::int64_t groups;          // of K
  std::int64_t rows, panels;
  std::int32_t* sums;  // [rows][sums_stride]
  std::int64_t sums_stride;
};

using IntegerTileFn = void (*)(const IntegerTile&);

// The fastest function of this machine. All give the same sums.
IntegerTileFn integer_tile(bool left_is_unsigned);
// Every function that this machine can run, for tests.
struct NamedIntegerTile {
  const char* name;
  IntegerTileFn left_unsigned, left_signed;
};
const NamedIntegerTile* integer_tiles(int* count);

}  // namespace gex::kernels
