#pragma once
// Tokens of the text forms: graphs (.gex), loop kernels and programs. Keeps one token of lookahead.
// Sizes are cut out as raw text, since their `//` and `%` mean division there.

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

// What differs between the text forms.
struct TextForm {
  std::string_view name;      // before the position in an error
  std::string_view comment;   // begins a comment, which goes to the end of the line
  std::string_view pairs[2];  // two characters that are one token
  bool values = false;        // %x is a value
  // Words end at blanks, parentheses, brackets and quotes only: %3, -5, <= and 0xff are
  // identifiers.
  bool long_words = false;
};
inline constexpr TextForm kGraphText{"", "//", {"->", "->"}, true, false};
inline constexpr TextForm kLoopText{"loop text ", "#", {"<-", "//"}, false, false};
inline constexpr TextForm kProgramText{"program text ", "", {}, false, true};

class Lexer {
 public:
  // `line`: the number of the text's first line.
  Lexer(std::string_view text, const TextForm& form, int line = 1);

  const Token& peek() const { return token_; }
  // The text of the token this many positions after the next one; empty at the end.
  std::string_view ahead(int places) const;
  Token next();
  bool at(std::string_view punctuation_or_word) const;
  bool accept(std::string_view punctuation_or_word);
  // `what` is the grammar's name of the expected text, for the message.
  void expect(std::string_view punctuation_or_word, std::string_view what = {});
  std::string_view expect_identifier(std::string_view what);
  std::string expect_string(std::string_view what);
  std::int64_t expect_int(std::string_view what);
  void expect_end() const;

  // A numeric literal, inf or nan with or without a minus, true or false.
  bool at_literal() const;
  std::string expect_literal();

  // The text from the next token to the first of `stops` outside parentheses, or the end of the
  // text; without blanks at its end. Ends of lines and quotes stop inside parentheses too. If
  // `what` is empty, the text may be empty, and of any length.
  std::string_view raw_until(std::string_view stops, std::string_view what);
  std::string_view raw_dim() { return raw_until(",]})\n\"", "a size"); }

  [[noreturn]] void fail_at(std::size_t offset, const std::string& message) const;
  [[noreturn]] void expected(std::string_view what) const;  // "expected WHAT, got TOKEN"
  // For mistakes in what was read already: "expected WHAT, at TOKEN".
  [[noreturn]] void expected_before(std::string_view what) const;

 private:
  void skip_blanks();
  void advance();
  std::string token_name() const;

  std::string_view text_;
  const TextForm* form_;
  int first_line_;
  std::size_t position_ = 0;
  Token token_;
};

}  // namespace gex
