#pragma once
// Stable 64-bit content hashes: the same text gives the same hash in every process and build.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gex {

using Hash = std::uint64_t;

Hash hash_bytes(const void* data, std::size_t size, Hash seed = 0);
inline Hash hash_text(std::string_view text, Hash seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}
constexpr Hash hash_combine(Hash a, Hash b) {
  Hash x = a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 12) + (a >> 4));
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  return x;
}

}  // namespace gex
