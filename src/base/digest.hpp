#pragma once
// SHA-256 digests: names for contents shared between processes, where two contents must never get
// the same name.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace gex {

struct Digest {
  std::array<std::uint8_t, 32> bytes{};
  std::string hex() const;  // 64 digits
  bool operator==(const Digest&) const = default;
};

class Digester {
 public:
  void add_bytes(std::string_view bytes);
  // Includes the length, so that fields can't run into each other.
  Digester& add(std::string_view field);
  Digester& add(std::int64_t number);
  Digest digest();  // may be called once

 private:
  void add_block(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> rest_{};
  std::size_t rest_size_ = 0;
  std::uint64_t total_ = 0;
};

Digest digest_of(std::string_view bytes);

}  // namespace gex
