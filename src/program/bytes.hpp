#pragma once
// Little-endian serialisation of numbers and strings. Reading never goes past the end: truncated
// data or impossible sizes are a UserError(parse_error).

#include <cstdint>
#include <string>
#include <string_view>

namespace gex::program {

class ByteWriter {
 public:
  void u8(std::uint8_t value) { out_ += static_cast<char>(value); }
  void u32(std::uint32_t value) { number(value, 4); }
  void u64(std::uint64_t value) { number(value, 8); }
  void i64(std::int64_t value) { number(static_cast<std::uint64_t>(value), 8); }
  void raw(std::string_view bytes) { out_ += bytes; }
  void text(std::string_view bytes) {
    u64(bytes.size());
    raw(bytes);
  }
  std::string take() { return std::move(out_); }

 private:
  void number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> 8 * i);
  }
  std::string out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::int64_t i64() { return static_cast<std::int64_t>(number(8)); }
  std::string_view raw(std::uint64_t size);
  std::string text() { return std::string(raw(u64())); }
  // The number of following entries, each of at least `least` bytes.
  std::size_t count(std::uint64_t least = 1);
  std::size_t left() const { return bytes_.size(); }
  void must_end() const;

 private:
  std::uint64_t number(std::size_t size);
  std::string_view bytes_;
};

}  // namespace gex::program
