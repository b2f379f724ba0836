#pragma once
// One line of program text as tokens. Every error message has the line's number and text.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "program/program.hpp"

namespace gex::program {

struct Token {
  enum class Kind { word, text, dims, open, close, end };  // dims: the text between brackets
  Kind kind = Kind::end;
  std::string value;
};

class Line {
 public:
  Line(std::string_view text, int number) : text_(text), number_(number) { advance(); }

  template <class... Args>
  [[noreturn]] void complain(const Args&... args) const {
    fail(ErrorCode::parse_error, "program text, line ", number_, ": ", args...,
         "; the line is: ", text_);
  }

  bool done() const { return token_.kind == Token::Kind::end; }
  bool at_open() const { return token_.kind == Token::Kind::open; }
  bool at_word(std::string_view word) const {
    return token_.kind == Token::Kind::word && token_.value == word;
  }

  bool take_word(std::string_view word);
  void expect_word(std::string_view word);
  void expect(Token::Kind kind);  // open or close
  std::string word() { return take(Token::Kind::word, "a word"); }
  std::string quoted() { return take(Token::Kind::text, "a name in quotes"); }
  std::string bracketed() { return take(Token::Kind::dims, "sizes in brackets"); }
  std::int64_t number();
  std::uint64_t unsigned_number();
  int small() { return static_cast<int>(number()); }
  BufferId buffer();
  DType dtype();
  void finish() const;

 private:
  std::string take(Token::Kind kind, const char* what);
  void advance();
  void advance_text();

  std::string_view text_;
  int number_;
  std::size_t position_ = 0;
  Token token_;
};

}  // namespace gex::program
