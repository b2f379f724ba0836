#include "program/text_line.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace gex::program {

namespace {

template <class Number>
Number whole(const std::string& value, const Line& line, const char* what) {
  Number out = 0;
  const char* end = value.data() + value.size();
  const auto result = std::from_chars(value.data(), end, out);
  if (result.ec != std::errc() || result.ptr != end)
    line.complain("expected ", what, ", got '", value, "'");
  return out;
}

}  // namespace

bool Line::take_word(std::string_view word) {
  if (!at_word(word)) return false;
  advance();
  return true;
}

void Line::expect_word(std::string_view word) {
  if (!take_word(word)) complain("expected '", word, "', got '", token_.value, "'");
}

void Line::expect(Token::Kind kind) {
  if (token_.kind != kind) complain("expected '", kind == Token::Kind::open ? "(" : ")", "'");
  advance();
}

std::int64_t Line::number() { return whole<std::int64_t>(word(), *this, "a number"); }

std::uint64_t Line::unsigned_number() {
  return whole<std::uint64_t>(word(), *this, "a number that is not negative");
}

BufferId Line::buffer() {
  const std::string value = word();
  int out = 0;
  const char* end = value.data() + value.size();
  if (value.size() < 2 || value[0] != '%' || std::from_chars(value.data() + 1, end, out).ptr != end)
    complain("expected a buffer such as %3, got '", value, "'");
  return out;
}

DType Line::dtype() {
  const std::string value = word();
  const auto dtype = dtype_from_name(value);
  if (!dtype) complain("expected a dtype such as f32, got '", value, "'");
  return *dtype;
}

void Line::finish() const {
  if (!done()) complain("unexpected '", token_.value, "'");
}

std::string Line::take(Token::Kind kind, const char* what) {
  if (token_.kind != kind) complain("expected ", what, ", got '", token_.value, "'");
  std::string value = std::move(token_.value);
  advance();
  return value;
}

void Line::advance() {
  while (position_ < text_.size() &&
         std::isspace(static_cast<unsigned char>(text_[position_])) != 0)
    ++position_;
  token_ = {};
  if (position_ >= text_.size()) return;
  const char c = text_[position_];
  if (c == '(' || c == ')') {
    token_ = {c == '(' ? Token::Kind::open : Token::Kind::close, std::string(1, c)};
    ++position_;
  } else if (c == '[') {
    const std::size_t end = text_.find(']', position_);
    if (end == std::string_view::npos) complain("'[' without ']'");
    token_ = {Token::Kind::dims, std::string(text_.substr(position_ + 1, end - position_ - 1))};
    position_ = end + 1;
  } else if (c == '"') {
    advance_text();
  } else {
    const std::size_t end = std::min(text_.find_first_of(" \t()[\"", position_), text_.size());
    token_ = {Token::Kind::word, std::string(text_.substr(position_, end - position_))};
    position_ = end;
  }
}

void Line::advance_text() {
  std::string value;
  for (++position_; position_ < text_.size() && text_[position_] != '"'; ++position_) {
    char c = text_[position_];
    if (c == '\\' && position_ + 1 < text_.size()) {
      c = text_[++position_];
      if (c == 'n') c = '\n';
    }
    value += c;
  }
  if (position_ >= text_.size()) complain("a quote is never closed");
  ++position_;
  token_ = {Token::Kind::text, std::move(value)};
}

}  // namespace gex::program
