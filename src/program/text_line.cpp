#include "program/text_line.hpp"

#include <charconv>

namespace gex::program {

namespace {

template <class Number>
Number whole(std::string_view value, const Line& line, const char* what) {
  Number out = 0;
  const char* end = value.data() + value.size();
  const auto result = std::from_chars(value.data(), end, out);
  if (result.ec != std::errc() || result.ptr != end)
    line.complain("expected ", what, ", got '", value, "'");
  return out;
}

}  // namespace

void Line::expect(std::string_view word) {
  if (!take(word)) complain("expected '", word, "', got '", lexer_.peek().text, "'");
}

std::string_view Line::word() {
  if (lexer_.peek().kind != Token::Kind::identifier)
    complain("expected a word, got '", lexer_.peek().text, "'");
  return lexer_.next().text;
}

std::string Line::quoted() {
  if (lexer_.peek().kind != Token::Kind::string)
    complain("expected a name in quotes, got '", lexer_.peek().text, "'");
  return lexer_.expect_string("a name in quotes");
}

std::string_view Line::bracketed() {
  if (!take("[")) complain("expected sizes in brackets, got '", lexer_.peek().text, "'");
  const std::string_view sizes = lexer_.raw_until("]", {});
  if (!take("]")) complain("'[' without ']'");
  return sizes;
}

std::int64_t Line::number() { return whole<std::int64_t>(word(), *this, "a number"); }

std::uint64_t Line::unsigned_number() {
  return whole<std::uint64_t>(word(), *this, "a number that is not negative");
}

BufferId Line::buffer() {
  const std::string_view value = word();
  int out = 0;
  const char* end = value.data() + value.size();
  if (value.size() < 2 || value[0] != '%' || std::from_chars(value.data() + 1, end, out).ptr != end)
    complain("expected a buffer such as %3, got '", value, "'");
  return out;
}

DType Line::dtype() {
  const std::string_view value = word();
  const auto dtype = dtype_from_name(value);
  if (!dtype) complain("expected a dtype such as f32, got '", value, "'");
  return *dtype;
}

void Line::finish() const {
  if (!done()) complain("unexpected '", lexer_.peek().text, "'");
}

}  // namespace gex::program
