#pragma once
// Tokens of the .gex text form. Keeps one token of lookahead; sizes are taken as raw text, since
// `//` and `%` mean division there.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace gex {

struct Token {
  enum class Kind : unsigned char { end, identifier, value, number, string, punctuation };
  Kind kind = Kind::end;
  std::size_t offset = 0;
  std::string_view text;  // without the % of a value; a string with its quotes
};

class Lexer {
 public:
  explicit Lexer(std::string_view text);

  const Token& peek() const { return token_; }
  Token next();
  bool at(std::string_view punctuation_or_word) const;
  bool accept(std::string_view punctuation_or_word);
  // `what` names the expected grammar element, for the message.
  void expect(std::string_view punctuation_or_word, std::string_view what);
  std::string_view expect_identifier(std::string_view what);
  std::string expect_string(std::string_view what);
  std::int64_t expect_int(std::string_view what);

  // The text from here to the next `,`, `]`, `}`, `)` or line end outside parentheses.
  std::string_view raw_dim();

  [[noreturn]] void fail_at(std::size_t offset, const std::string& message) const;
  [[noreturn]] void expected(std::string_view what) const;  // "expected WHAT, got TOKEN"

 private:
  void skip_blanks();
  void advance();

  std::string_view text_;
  std::size_t position_ = 0;
  Token token_;
};

}  // namespace gex
