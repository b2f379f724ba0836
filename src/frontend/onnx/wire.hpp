#pragma once
// The protobuf wire format, read in place and bounds-checked. ONNX has a dozen messages, so no
// protobuf library is needed in the process, where another copy may already be loaded.

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace gex::onnx {

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  // Moves to the next field; false at the end of the message.
  bool next() {
    if (at_ >= bytes_.size()) return false;
    const std::uint64_t key = varint();
    field_ = static_cast<std::uint32_t>(key >> 3);
    kind_ = static_cast<std::uint32_t>(key & 7);
    switch (kind_) {
      case 0:
        number_ = varint();
        break;
      case 1:
        number_ = fixed<std::uint64_t>();
        break;
      case 2:
        body_ = take(varint());
        break;
      case 5:
        number_ = fixed<std::uint32_t>();
        break;
      default:
        broken("an unknown kind of field");
    }
    if (field_ == 0) broken("a field with number 0");
    return true;
  }

  std::uint32_t field() const { return field_; }
  std::int64_t integer() const {
    expect(0);
    return static_cast<std::int64_t>(number_);
  }
  float real() const {
    expect(5);
    return std::bit_cast<float>(static_cast<std::uint32_t>(number_));
  }
  std::string_view bytes() const {
    expect(2);
    return body_;
  }
  std::string text() const { return std::string(bytes()); }
  // Text for display: invalid UTF-8 bytes become question marks.
  std::string name() const {
    std::string out = text();
    for (std::size_t k = 0; k < out.size();) {
      const auto c = static_cast<unsigned char>(out[k]);
      const std::size_t more = c < 0x80                ? 0
                               : c >= 0xc2 && c < 0xe0 ? 1
                               : c >= 0xe0 && c < 0xf0 ? 2
                               : c >= 0xf0 && c < 0xf5 ? 3
                                                       : 4;
      bool good = more < 4 && k + more < out.size();
      for (std::size_t i = 1; good && i <= more; ++i)
        good = (static_cast<unsigned char>(out[k + i]) & 0xc0) == 0x80;
      // Overlong forms and surrogates.
      if (good && more == 2) {
        const auto next = static_cast<unsigned char>(out[k + 1]);
        good = !(c == 0xe0 && next < 0xa0) && !(c == 0xed && next >= 0xa0);
      }
      if (good && more == 3) {
        const auto next = static_cast<unsigned char>(out[k + 1]);
        good = !(c == 0xf0 && next < 0x90) && !(c == 0xf4 && next >= 0x90);
      }
      if (!good) out[k] = '?';
      k += good ? more + 1 : 1;
    }
    return out;
  }

  // Repeated numbers: packed into one field, or one field each.
  void integers(std::vector<std::int64_t>& into) const {
    if (kind_ == 0) {
      into.push_back(integer());
      return;
    }
    WireReader packed(bytes());
    while (packed.at_ < packed.bytes_.size())
      into.push_back(static_cast<std::int64_t>(packed.varint()));
  }
  template <class T>
  void fixed_numbers(std::vector<T>& into) const {
    if (kind_ != 2) {
      if (kind_ != (sizeof(T) == 4 ? 5u : 1u)) broken("a number of the wrong width");
      T value;
      std::memcpy(&value, &number_, sizeof(T));
      into.push_back(value);
      return;
    }
    if (body_.size() % sizeof(T) != 0) broken("a packed list that ends inside a number");
    const std::size_t old = into.size();
    into.resize(old + body_.size() / sizeof(T));
    if (!body_.empty()) std::memcpy(into.data() + old, body_.data(), body_.size());
  }

 private:
  [[noreturn]] static void broken(const char* what) {
    fail(ErrorCode::parse_error, "not an ONNX model, or a damaged one: ", what);
  }
  void expect(std::uint32_t kind) const {
    if (kind_ != kind) broken("a field whose kind differs from the schema");
  }
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) broken("it ends inside a field");
    const std::string_view part = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return part;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ >= bytes_.size()) broken("it ends inside a number");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    broken("a number of more than 64 bits");
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view bytes_, body_;
  std::size_t at_ = 0;
  std::uint32_t field_ = 0, kind_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace gex::onnx
