#include "ir/text/lexer.hpp"

#include <algorithm>
#include <charconv>

namespace gex {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The part of the text shown in a message: enough to find it, bounded in length.
std::string excerpt(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string out;
  for (char c : text.substr(0, kLongest)) out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return text.size() > kLongest ? out + "..." : out;
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) { advance(); }

void Lexer::fail_at(std::size_t offset, const std::string& message) const {
  std::string_view before = text_.substr(0, std::min(offset, text_.size()));
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  std::size_t start = before.rfind('\n');
  std::size_t column = start == std::string_view::npos ? before.size() + 1 : before.size() - start;
  fail(ErrorCode::parse_error, line, ":", column, ": ", message);
}

void Lexer::expected(std::string_view what) const {
  std::string got =
      token_.kind == Token::Kind::end ? "the end of the text"
      : token_.kind == Token::Kind::string
          ? excerpt(token_.text)
          : str("'", token_.kind == Token::Kind::value ? "%" : "", excerpt(token_.text), "'");
  fail_at(token_.offset, str("expected ", what, ", got ", got));
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_blanks();
  std::size_t start = position_;
  auto take = [&](Token::Kind kind, std::size_t begin, std::size_t end) {
    token_ = {kind, start, text_.substr(begin, end - begin)};
    position_ = end;
  };
  auto end_of = [&](std::size_t i, auto belongs) {
    while (i < text_.size() && belongs(text_[i])) ++i;
    return i;
  };
  if (start >= text_.size()) return take(Token::Kind::end, text_.size(), text_.size());
  char c = text_[start];
  if (is_letter(c)) return take(Token::Kind::identifier, start, end_of(start, is_name_char));
  if (c == '%') {
    std::size_t end = end_of(start + 1, is_name_char);
    if (end == start + 1) fail_at(start, "expected the name of a value after '%'");
    return take(Token::Kind::value, start + 1, end);
  }
  if (is_digit(c)) {
    std::size_t i = end_of(start, is_name_char);
    // The sign of an exponent belongs to the number: 1e-5, but not 0x1e-5.
    bool exponent = i < text_.size() && (text_[i] == '-' || text_[i] == '+') &&
                    (text_[i - 1] == 'e' || text_[i - 1] == 'E') && text_.substr(start, 2) != "0x";
    return take(Token::Kind::number, start, exponent ? end_of(i + 1, is_digit) : i);
  }
  if (c == '"') {
    std::size_t i = start + 1;
    while (i < text_.size() && text_[i] != '"') i += text_[i] == '\\' ? 2 : 1;
    if (i >= text_.size()) fail_at(start, "this string has no closing quote");
    return take(Token::Kind::string, start, i + 1);
  }
  bool arrow = text_.substr(start, 2) == "->";
  take(Token::Kind::punctuation, start, start + (arrow ? 2 : 1));
}

Token Lexer::next() {
  Token token = token_;
  advance();
  return token;
}

bool Lexer::at(std::string_view word) const {
  return (token_.kind == Token::Kind::punctuation || token_.kind == Token::Kind::identifier) &&
         token_.text == word;
}

bool Lexer::accept(std::string_view word) {
  if (!at(word)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view word, std::string_view what) {
  if (!accept(word)) expected(str("'", word, "' ", what));
}

std::string_view Lexer::expect_identifier(std::string_view what) {
  if (token_.kind != Token::Kind::identifier) expected(what);
  return next().text;
}

std::string Lexer::expect_string(std::string_view what) {
  if (token_.kind != Token::Kind::string) expected(what);
  Token token = next();
  std::string_view body = token.text.substr(1, token.text.size() - 2);
  std::string out;
  out.reserve(body.size());
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    char c = i + 1 < body.size() ? body[i + 1] : '\0';
    if (c == 'x' && i + 3 < body.size() && hex_value(body[i + 2]) >= 0 &&
        hex_value(body[i + 3]) >= 0) {
      out += static_cast<char>(hex_value(body[i + 2]) * 16 + hex_value(body[i + 3]));
      i += 3;
      continue;
    }
    ++i;
    if (c == 'n')
      out += '\n';
    else if (c == 't')
      out += '\t';
    else if (c == '"' || c == '\\')
      out += c;
    else
      fail_at(token.offset + i, "unknown escape; use \\n, \\t, \\\", \\\\ or \\xHH");
  }
  return out;
}

std::int64_t Lexer::expect_int(std::string_view what) {
  std::size_t offset = token_.offset;
  bool negative = accept("-");
  if (token_.kind != Token::Kind::number) expected(what);
  std::string digits = (negative ? "-" : "") + std::string(token_.text);
  std::int64_t value = 0;
  auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem == std::errc::result_out_of_range)
    fail_at(offset, str(excerpt(digits), " does not fit 64 bits"));
  if (problem != std::errc() || end != digits.data() + digits.size()) expected(what);
  advance();
  return value;
}

std::string_view Lexer::raw_dim() {
  constexpr std::size_t kLongest = 65536;
  constexpr int kDeepest = 100;
  std::size_t start = token_.offset;
  std::size_t i = start;
  for (int depth = 0; i < text_.size(); ++i) {
    char c = text_[i];
    if (c == '\n' || c == '"') break;
    if (depth == 0 && (c == ',' || c == ']' || c == '}' || c == ')')) break;
    if (c == '(' && ++depth > kDeepest) fail_at(i, "this size is nested too deeply");
    if (c == ')') --depth;
    if (i - start > kLongest) fail_at(start, "this size is too long");
  }
  std::string_view raw = text_.substr(start, i - start);
  while (!raw.empty() && (raw.back() == ' ' || raw.back() == '\t' || raw.back() == '\r'))
    raw.remove_suffix(1);
  if (raw.empty()) expected("a size");
  position_ = i;
  advance();
  return raw;
}

}  // namespace gex
