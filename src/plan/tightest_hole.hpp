#pragma once
// Placed values packed into words, and the search for free room between them.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gex::plan {

// Offsets and sizes are counted in units of kAlignment: a placed value fits one word (offset in the
// high half, end in the low half), so sorting by offset is sorting integers.
inline constexpr std::uint64_t kUnplaced = ~std::uint64_t{0};
inline std::uint64_t pack(std::uint32_t begin, std::uint32_t end) {
  return (std::uint64_t{begin} << 32) | end;
}
inline std::uint32_t begin_of(std::uint64_t packed) {
  return static_cast<std::uint32_t>(packed >> 32);
}
inline std::uint32_t end_of(std::uint64_t packed) { return static_cast<std::uint32_t>(packed); }

// Lists up to this length are sorted by a network, longer ones by merging.
inline constexpr int kMaxNetwork = 16;
// Number of words that tightest_hole_between needs for `count` neighbours.
inline std::size_t words_for(std::size_t count) {
  return 2 * std::bit_ceil(std::max<std::size_t>(count + 1, kMaxNetwork));
}

// The offset of the smallest hole that fits `size`; the room above all neighbours comes last. Sorts
// the neighbours; the array must have words_for(count) words.
std::uint32_t tightest_hole_between(std::uint64_t* around, int count, std::uint32_t size);

}  // namespace gex::plan
