#pragma once
// Tokens of the loop text, with positions for error messages.

#include <string>
#include <string_view>
#include <vector>

namespace gex::loop {

class Lexer {
 public:
  explicit Lexer(std::string_view text);

  // The token `ahead` positions further; empty at the end.
  std::string_view peek(std::size_t ahead = 0) const;
  bool accept(std::string_view token);
  void expect(std::string_view token);
  void expect_end() const;
  std::string name(std::string_view what);
  bool at_number() const;
  std::string number();  // a numeric literal, inf, -inf, nan, true or false
  // The raw text up to (not including) the first of `stops` outside brackets; '\n' stops at the
  // end of the line.
  std::string_view until_any(std::string_view stops);
  // UserError(parse_error): "line:column: expected <what>".
  [[noreturn]] void error(const std::string& expected) const;

 private:
  struct Token {
    std::string_view text;
    std::size_t offset;
  };
  std::string_view text_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace gex::loop
