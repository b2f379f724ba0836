#pragma once
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): counter-based, so
// any element of a random tensor can be computed anywhere, in any order, with the same bits.

#include <array>
#include <cstdint>

namespace gex::loop {

constexpr std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                                     std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplierA = 0xD2511F53, kMultiplierB = 0xCD9E8D57;
  constexpr std::uint32_t kWeylA = 0x9E3779B9, kWeylB = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    std::uint64_t a = kMultiplierA * counter[0];
    std::uint64_t b = kMultiplierB * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += kWeylA;
    key[1] += kWeylB;
  }
  return counter;
}

// The primitive `philox`: 64-bit key and counter (upper counter words zero), one of four words.
constexpr std::int64_t philox_word(std::int64_t key, std::int64_t counter, std::int64_t word) {
  auto k = static_cast<std::uint64_t>(key);
  auto c = static_cast<std::uint64_t>(counter);
  auto words =
      philox4x32_10({static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32), 0, 0},
                    {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32)});
  return words[static_cast<std::uint64_t>(word) & 3u];
}

}  // namespace gex::loop
