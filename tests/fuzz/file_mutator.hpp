#pragma once
// Damaged binary files: what disks, transfers and strangers do to them. The same for the same seed.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

namespace gex::test {

class FileMutator {
 public:
  explicit FileMutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  // One to four changes: bits, cut ends, lengths and offsets, parts moved, repeated or left out.
  std::string changed(std::string bytes) {
    for (std::size_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) change(bytes);
    return bytes;
  }

 private:
  void change(std::string& bytes) {
    const std::size_t at = below(bytes.size());
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(random_());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        put_number(bytes, at);
        break;
      case 4:
        put_varint(bytes, at);
        break;
      case 5:
        bytes.erase(at, 1 + below(16));
        break;
      default:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(64)));
    }
  }

  std::uint64_t number() {
    constexpr std::uint64_t kNumbers[] = {0,
                                          1,
                                          0x7f,
                                          0x80,
                                          0xffff,
                                          0x7fffffff,
                                          0xffffffff,
                                          std::uint64_t{1} << 40,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0xffffffffffffffff};
    return kNumbers[below(std::size(kNumbers))] - below(2);
  }

  // A length or offset of fixed width: 4 or 8 bytes, little endian.
  void put_number(std::string& bytes, std::size_t at) {
    const std::uint64_t value = number();
    const std::size_t width = std::min(bytes.size() - at, below(2) == 0 ? std::size_t{4} : 8);
    std::memcpy(bytes.data() + at, &value, width);
  }

  // A length of protobuf: seven bits a byte.
  void put_varint(std::string& bytes, std::size_t at) {
    std::string varint;
    for (std::uint64_t value = number();; value >>= 7) {
      varint += static_cast<char>((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
      if (value <= 0x7f) break;
    }
    bytes.replace(at, 1, varint);
  }

  std::mt19937_64 random_;
};

}  // namespace gex::test
