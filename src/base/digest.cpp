#include "base/digest.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gex {

namespace {

constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

std::string Digest::hex() const {
  static const char* digits = "0123456789abcdef";
  std::string out;
  for (std::uint8_t byte : bytes) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

void Digester::add_block(const std::uint8_t* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i)
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  std::array<std::uint32_t, 8> s = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t up = s[7] +
                             (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                             ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRounds[i] + w[i];
    const std::uint32_t down = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                               ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {up + down, s[0], s[1], s[2], s[3] + up, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) state_[i] += s[i];
}

void Digester::add_bytes(std::string_view bytes) {
  total_ += bytes.size();
  const auto* from = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t left = bytes.size();
  if (rest_size_ > 0) {
    const std::size_t taken = std::min(left, rest_.size() - rest_size_);
    std::memcpy(rest_.data() + rest_size_, from, taken);
    rest_size_ += taken;
    from += taken;
    left -= taken;
    if (rest_size_ < rest_.size()) return;
    add_block(rest_.data());
    rest_size_ = 0;
  }
  for (; left >= rest_.size(); from += rest_.size(), left -= rest_.size()) add_block(from);
  if (left > 0) std::memcpy(rest_.data(), from, left);
  rest_size_ = left;
}

Digester& Digester::add(std::string_view field) {
  add(static_cast<std::int64_t>(field.size()));
  add_bytes(field);
  return *this;
}

Digester& Digester::add(std::int64_t number) {
  char bytes[8];
  for (int i = 0; i < 8; ++i)
    bytes[i] = static_cast<char>(static_cast<std::uint64_t>(number) >> 8 * i);
  add_bytes({bytes, 8});
  return *this;
}

Digest Digester::digest() {
  const std::uint64_t bits = total_ * 8;
  std::string padding("\x80");
  while ((total_ + padding.size()) % 64 != 56) padding += '\0';
  for (int i = 7; i >= 0; --i) padding += static_cast<char>(bits >> 8 * i);
  add_bytes(padding);
  Digest out;
  for (std::size_t i = 0; i < 32; ++i)
    out.bytes[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

Digest digest_of(std::string_view bytes) {
  Digester digester;
  digester.add_bytes(bytes);
  return digester.digest();
}

}  // namespace gex
