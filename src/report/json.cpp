#include "report/json.hpp"

#include <charconv>
#include <cmath>

namespace gex::report {

namespace {

// Bytes of the UTF-8 character that begins at `at`; 0 if there is none.
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t bytes = first < 0x80       ? 1
                            : first >> 5 == 6  ? 2
                            : first >> 4 == 14 ? 3
                            : first >> 3 == 30 ? 4
                                               : 0;
  if (bytes == 0 || at + bytes > text.size()) return 0;
  for (std::size_t k = 1; k < bytes; ++k)
    if ((static_cast<unsigned char>(text[at + k]) & 0xc0) != 0x80) return 0;
  return bytes;
}

}  // namespace

void Json::separate() {
  if (comma_) out_ += ',';
  comma_ = true;
}

Json& Json::open(char bracket) {
  separate();
  out_ += bracket;
  comma_ = false;
  return *this;
}

Json& Json::close(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

Json& Json::key(std::string_view name) {
  separate();
  append_text(name);
  out_ += ':';
  comma_ = false;
  return *this;
}

Json& Json::value(std::string_view text) {
  separate();
  append_text(text);
  return *this;
}

Json& Json::value(double number) {
  if (!std::isfinite(number)) return raw("null");
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  return raw({digits, static_cast<std::size_t>(end - digits)});
}

Json& Json::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

// "<" is escaped: the text may be embedded in a <script> element.
void Json::append_text(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out_ += '"';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_at(text, at);
    const auto c = static_cast<unsigned char>(text[at]);
    if (bytes == 0) {
      out_ += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += static_cast<char>(c);
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (c < 0x20 || c == '<' || c == 0x7f) {
      out_ += "\\u00";
      out_ += kHex[c >> 4];
      out_ += kHex[c & 15];
    } else {
      out_.append(text, at, bytes);
    }
    at += bytes == 0 ? 1 : bytes;
  }
  out_ += '"';
}

}  // namespace gex::report
