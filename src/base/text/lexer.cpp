#include "base/text/lexer.hpp"

#include <algorithm>
#include <charconv>

namespace gex {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
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

Lexer::Lexer(std::string_view text, const TextForm& form, int line)
    : text_(text), form_(&form), first_line_(line) {
  advance();
}

void Lexer::fail_at(std::size_t offset, const std::string& message) const {
  const std::string_view before = text_.substr(0, std::min(offset, text_.size()));
  const auto line = first_line_ + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column =
      start == std::string_view::npos ? before.size() + 1 : before.size() - start;
  fail(ErrorCode::parse_error, form_->name, line, ":", column, ": ", message);
}

std::string Lexer::token_name() const {
  if (token_.kind == Token::Kind::end) return "the end of the text";
  if (token_.kind == Token::Kind::string) return excerpt(token_.text);
  return str("'", token_.kind == Token::Kind::value ? "%" : "", excerpt(token_.text), "'");
}

void Lexer::expected(std::string_view what) const {
  fail_at(token_.offset, str("expected ", what, ", got ", token_name()));
}

void Lexer::expected_before(std::string_view what) const {
  fail_at(token_.offset, str("expected ", what, ", at ", token_name()));
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    if (is_blank(text_[position_])) {
      ++position_;
    } else if (!form_->comment.empty() && text_.substr(position_).starts_with(form_->comment)) {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_blanks();
  const std::size_t start = position_;
  const auto take = [&](Token::Kind kind, std::size_t begin, std::size_t end) {
    token_ = {kind, start, text_.substr(begin, end - begin)};
    position_ = end;
  };
  const auto end_of = [&](std::size_t i, auto belongs) {
    while (i < text_.size() && belongs(text_[i])) ++i;
    return i;
  };
  if (start >= text_.size()) return take(Token::Kind::end, text_.size(), text_.size());
  const char c = text_[start];
  if (c == '"') {
    std::size_t i = start + 1;
    while (i < text_.size() && text_[i] != '"') i += text_[i] == '\\' ? 2 : 1;
    if (i >= text_.size()) fail_at(start, "this string has no closing quote");
    return take(Token::Kind::string, start, i + 1);
  }
  if (form_->long_words) {
    const auto ends = [](char d) {
      return std::string_view("()[]").find(d) != std::string_view::npos;
    };
    if (ends(c)) return take(Token::Kind::punctuation, start, start + 1);
    const auto belongs = [](char d) {
      return !is_blank(d) && d != '(' && d != ')' && d != '[' && d != '"';
    };
    return take(Token::Kind::identifier, start, end_of(start, belongs));
  }
  if (is_letter(c)) return take(Token::Kind::identifier, start, end_of(start, is_name_char));
  if (c == '%' && form_->values) {
    const std::size_t end = end_of(start + 1, is_name_char);
    if (end == start + 1) fail_at(start, "expected the name of a value after '%'");
    return take(Token::Kind::value, start + 1, end);
  }
  if (is_digit(c)) {
    const std::size_t i = end_of(start, is_name_char);
    // The sign of an exponent belongs to the number: 1e-5, but not 0x1e-5.
    const bool exponent = i < text_.size() && (text_[i] == '-' || text_[i] == '+') &&
                          (text_[i - 1] == 'e' || text_[i - 1] == 'E') &&
                          text_.substr(start, 2) != "0x";
    return take(Token::Kind::number, start, exponent ? end_of(i + 1, is_digit) : i);
  }
  const std::string_view two = text_.substr(start, 2);
  const bool pair = two.size() == 2 && (two == form_->pairs[0] || two == form_->pairs[1]);
  take(Token::Kind::punctuation, start, start + (pair ? 2 : 1));
}

std::string_view Lexer::ahead(int places) const {
  Lexer copy = *this;
  for (int k = 0; k < places; ++k) copy.advance();
  return copy.token_.text;
}

Token Lexer::next() {
  const Token token = token_;
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
  if (!accept(word)) expected(what.empty() ? str("'", word, "'") : str("'", word, "' ", what));
}

void Lexer::expect_end() const {
  if (token_.kind != Token::Kind::end) expected("the end of the text");
}

std::string_view Lexer::expect_identifier(std::string_view what) {
  if (token_.kind != Token::Kind::identifier) expected(what);
  return next().text;
}

std::string Lexer::expect_string(std::string_view what) {
  if (token_.kind != Token::Kind::string) expected(what);
  const Token token = next();
  const std::string_view body = token.text.substr(1, token.text.size() - 2);
  std::string out;
  out.reserve(body.size());
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    const char c = i + 1 < body.size() ? body[i + 1] : '\0';
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
  const std::size_t offset = token_.offset;
  const bool negative = accept("-");
  if (token_.kind != Token::Kind::number) expected(what);
  const std::string digits = (negative ? "-" : "") + std::string(token_.text);
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem == std::errc::result_out_of_range)
    fail_at(offset, str(excerpt(digits), " does not fit 64 bits"));
  if (problem != std::errc() || end != digits.data() + digits.size()) expected(what);
  advance();
  return value;
}

bool Lexer::at_literal() const {
  const std::string_view text = at("-") ? ahead(1) : token_.text;
  return !text.empty() &&
         (is_digit(text[0]) || text == "inf" || text == "nan" || text == "true" || text == "false");
}

std::string Lexer::expect_literal() {
  if (!at_literal()) expected("a number");
  const std::string sign = accept("-") ? "-" : "";
  return sign + std::string(next().text);
}

std::string_view Lexer::raw_until(std::string_view stops, std::string_view what) {
  constexpr std::size_t kLongest = 65536;  // of one size; lists of them have no limit
  constexpr int kDeepest = 100;
  const std::size_t start = token_.offset;
  std::size_t i = start;
  for (int depth = 0; i < text_.size(); ++i) {
    const char c = text_[i];
    const bool stop = stops.find(c) != std::string_view::npos;
    if (stop && (depth == 0 || c == '\n' || c == '"')) break;
    if (c == '(' && ++depth > kDeepest) fail_at(i, str(what, " is nested too deeply"));
    if (c == ')') --depth;
    if (i - start > kLongest && !what.empty()) fail_at(start, str(what, " is too long"));
  }
  std::string_view raw = text_.substr(start, i - start);
  while (!raw.empty() && is_blank(raw.back())) raw.remove_suffix(1);
  if (raw.empty() && !what.empty()) expected(what);
  position_ = i;
  advance();
  return raw;
}

}  // namespace gex
