#pragma once
// Placed values as words, and the search for room between them.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gex::plan {

// Offsets and sizes are counted in units of kAlignment: a placed value fits one word
// (offset above, end below), so sorting values by offset is sorting plain integers.
inline constexpr std::uint64_t kUnplaced = ~std::uint64_t{0};
inline std::uint64_t pack(std::uint32_t begin, std::uint32_t end) {
  return (std::uint64_t{begin} << 32) | end;
}
inline std::uint32_t begin_of(std::uint64_t packed) {
  return static_cast<std::uint32_t>(packed >> 32);
}
inline std::uint32_t end_of(std::uint64_t packed) { return static_cast<std::uint32_t>(packed); }

// Lists up to this long are sorted by a network, longer ones in pieces.
inline constexpr int kMaxNetwork = 16;
// How many words tightest_hole_between needs for so many neighbours.
inline std::size_t words_for(std::size_t count) {
  return 2 * std::bit_ceil(std::max<std::size_t>(count + 1, kMaxNetwork));
}

// The offset of the tightest hole that `size` fits; that above all neighbours is the last choice.
// Sorts the neighbours, in room for words_for(count).
std::uint32_t tightest_hole_between(std::uint64_t* around, int count, std::uint32_t size);

}  // namespace gex::plan
