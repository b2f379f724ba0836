#include "loop/lexer.hpp"

#include <algorithm>
#include <cctype>

#include "base/error.hpp"

namespace gex::loop {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

std::size_t token_length(std::string_view s) {
  std::size_t n = 1;
  if (starts_name(s[0])) {
    while (n < s.size() && continues_name(s[n])) ++n;
  } else if (std::isdigit(static_cast<unsigned char>(s[0]))) {
    while (n < s.size() && (continues_name(s[n]) ||
                            ((s[n] == '-' || s[n] == '+') && (s[n - 1] == 'e' || s[n - 1] == 'E'))))
      ++n;
  } else if (s.starts_with("<-") || s.starts_with("//")) {
    n = 2;
  }
  return n;
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) {
  std::size_t i = 0;
  while (i < text.size()) {
    if (std::isspace(static_cast<unsigned char>(text[i]))) {
      ++i;
    } else if (text[i] == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else {
      std::size_t n = token_length(text.substr(i));
      tokens_.push_back({text.substr(i, n), i});
      i += n;
    }
  }
}

std::string_view Lexer::peek(std::size_t ahead) const {
  return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].text : std::string_view();
}

bool Lexer::accept(std::string_view token) {
  if (peek() != token) return false;
  ++at_;
  return true;
}

void Lexer::expect(std::string_view token) {
  if (!accept(token)) error(str("'", token, "'"));
}

void Lexer::expect_end() const {
  if (at_ < tokens_.size()) error("the end of the text");
}

std::string Lexer::name(std::string_view what) {
  if (at_ >= tokens_.size() || !starts_name(peek()[0])) error(std::string(what));
  return std::string(tokens_[at_++].text);
}

bool Lexer::at_number() const {
  auto t = peek();
  if (t == "-") t = peek(1);
  return !t.empty() && (std::isdigit(static_cast<unsigned char>(t[0])) || t == "inf" ||
                        t == "nan" || t == "true" || t == "false");
}

std::string Lexer::number() {
  if (!at_number()) error("a number");
  std::string sign = accept("-") ? "-" : "";
  return sign + std::string(tokens_[at_++].text);
}

std::string_view Lexer::until_any(std::string_view stops) {
  if (at_ >= tokens_.size()) error("an index or size");
  std::size_t begin = tokens_[at_].offset;
  std::size_t end = begin;
  int depth = 0;
  for (; end < text_.size(); ++end) {
    char c = text_[end];
    if (depth == 0 && stops.find(c) != std::string_view::npos) break;
    if (c == '(') ++depth;
    if (c == ')') --depth;
  }
  if (end == begin) error("an index or size");
  while (at_ < tokens_.size() && tokens_[at_].offset < end) ++at_;
  return text_.substr(begin, end - begin);
}

void Lexer::error(const std::string& expected) const {
  std::size_t offset = at_ < tokens_.size() ? tokens_[at_].offset : text_.size();
  auto before = text_.substr(0, offset);
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  auto column =
      offset - (before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1);
  std::string got = at_ < tokens_.size() ? str("'", peek(), "'") : "the end of the text";
  fail(ErrorCode::parse_error, "loop text ", line, ":", column + 1, ": expected ", expected,
       ", at ", got);
}

}  // namespace gex::loop
