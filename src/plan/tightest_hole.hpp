#pragma once
// Placed values as words, and the search for room between them.

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

// Lists up to this long are sorted by a network.
inline constexpr int kMaxNetwork = 32;

// The offset of the tightest hole that `size` fits; that above all neighbours is the last choice.
// Sorts the neighbours, of which there is room for count + kMaxNetwork.
std::uint32_t tightest_hole_between(std::uint64_t* around, int count, std::uint32_t size);

}  // namespace gex::plan
