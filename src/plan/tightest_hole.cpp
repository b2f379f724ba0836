#include "plan/tightest_hole.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

namespace gex::plan {
namespace {

// Batcher's odd-even merge network, unrolled: no data-dependent branches, whose mispredictions
// dominate sorting of short random lists.
template <int N>
struct Network {
  struct Pair {
    std::uint8_t low, high;
  };
  std::array<Pair, static_cast<std::size_t>(N) * 8> pairs{};
  std::size_t count = 0;
  constexpr Network() {
    for (int p = 1; p < N; p *= 2)
      for (int k = p; k >= 1; k /= 2)
        for (int j = k % p; j + k < N; j += 2 * k)
          for (int i = j; i < j + k && i + k < N; ++i)
            if (i / (2 * p) == (i + k) / (2 * p))
              pairs[count++] = {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i + k)};
  }
};

template <int N>
void sort_network(std::uint64_t* values) {
  static constexpr Network<N> kNetwork;
  [values]<std::size_t... i>(std::index_sequence<i...>) {
    const auto exchange = [values](std::size_t low, std::size_t high) {
      const std::uint64_t a = values[low], b = values[high];
      values[low] = a < b ? a : b;
      values[high] = a < b ? b : a;
    };
    (exchange(kNetwork.pairs[i].low, kNetwork.pairs[i].high), ...);
  }(std::make_index_sequence<kNetwork.count>());
}

// The offset of the smallest hole between sorted neighbours that fits `size`; the last neighbour is
// kUnplaced, so the room below it counts as a hole. A hole is one word: its room in the high bits,
// its offset in the low bits, all ones if it is too small. No data-dependent branches here either.
std::uint32_t tightest_hole(const std::uint64_t* around, int count, std::uint32_t size) {
  const std::int64_t least = std::max<std::int64_t>(size, 1);
  std::uint32_t top = 0;
  std::uint64_t best = kUnplaced;
  for (int k = 0; k < count; ++k) {
    const std::int64_t room = std::int64_t{begin_of(around[k])} - top;
    const auto too_small = static_cast<std::uint64_t>((room - least) >> 63);
    best = std::min(best, (static_cast<std::uint64_t>(room) << 32 | top) | too_small);
    top = std::max(top, end_of(around[k]));
  }
  return static_cast<std::uint32_t>(best);
}

// Merges two sorted halves from both ends at once, so that no end check is needed.
void merge_halves(const std::uint64_t* from, std::size_t half, std::uint64_t* to) {
  const std::uint64_t *low = from, *high = from + half;
  const std::uint64_t *last_low = high - 1, *last_high = last_low + half;
  std::uint64_t *front = to, *back = to + 2 * half - 1;
  for (std::size_t k = 0; k < half; ++k) {
    const std::uint64_t a = *low, b = *high, c = *last_low, d = *last_high;
    *front++ = a <= b ? a : b;
    low += a <= b ? 1 : 0;
    high += a <= b ? 0 : 1;
    *back-- = c <= d ? d : c;
    last_high -= c <= d ? 1 : 0;
    last_low -= c <= d ? 0 : 1;
  }
}

// `count` is a power of two; as many words again follow as scratch. Returns the sorted result.
std::uint64_t* sort_in_halves(std::uint64_t* values, std::size_t count) {
  for (std::size_t at = 0; at < count; at += kMaxNetwork) sort_network<kMaxNetwork>(values + at);
  std::uint64_t *from = values, *to = values + count;
  for (std::size_t half = kMaxNetwork; half < count; half *= 2) {
    for (std::size_t at = 0; at < count; at += 2 * half) merge_halves(from + at, half, to + at);
    std::swap(from, to);
  }
  return from;
}

template <int N>
std::uint32_t tightest_hole_of(std::uint64_t* around, std::uint32_t size) {
  sort_network<N>(around);
  return tightest_hole(around, N, size);
}

}  // namespace

std::uint32_t tightest_hole_between(std::uint64_t* around, int count, std::uint32_t size) {
  constexpr int kMostPadding = 4;  // between one network and the next
  for (int i = 0; i < kMostPadding; ++i) around[count + i] = kUnplaced;
  if (count < 4) return tightest_hole_of<4>(around, size);
  if (count < 8) return tightest_hole_of<8>(around, size);
  if (count < 12) return tightest_hole_of<12>(around, size);
  if (count < kMaxNetwork) return tightest_hole_of<kMaxNetwork>(around, size);
  const std::size_t room = std::bit_ceil(static_cast<std::size_t>(count) + 1);
  std::fill(around + count, around + room, kUnplaced);
  return tightest_hole(sort_in_halves(around, room), count + 1, size);
}

}  // namespace gex::plan
