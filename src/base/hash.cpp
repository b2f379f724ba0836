#include "base/hash.hpp"

#include <cstring>

namespace gex {

Hash hash_bytes(const void* data, std::size_t size, Hash seed) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  Hash h = hash_combine(seed ^ 0x51ed270b7a5d3c49ULL, size);
  while (size >= 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes, 8);
    h = hash_combine(h, word);
    bytes += 8;
    size -= 8;
  }
  std::uint64_t tail = 0;
  for (std::size_t i = 0; i < size; ++i) tail |= std::uint64_t{bytes[i]} << (8 * i);
  return hash_combine(h, tail);
}

}  // namespace gex
