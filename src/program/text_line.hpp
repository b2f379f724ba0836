#pragma once
// One line of program text as tokens. Every error message has the line's number and text.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/text/lexer.hpp"
#include "program/program.hpp"

namespace gex::program {

class Line {
 public:
  Line(std::string_view text, int number)
      : text_(text), number_(number), lexer_(text, kProgramText, number) {}

  template <class... Args>
  [[noreturn]] void complain(const Args&... args) const {
    fail(ErrorCode::parse_error, "program text, line ", number_, ": ", args...,
         "; the line is: ", text_);
  }

  bool done() const { return lexer_.peek().kind == Token::Kind::end; }
  bool at(std::string_view word) const { return lexer_.at(word); }
  bool take(std::string_view word) { return lexer_.accept(word); }
  void expect(std::string_view word);
  std::string_view word();
  std::string quoted();
  std::string_view bracketed();  // the text between brackets
  std::int64_t number();
  std::uint64_t unsigned_number();
  int small() { return static_cast<int>(number()); }
  BufferId buffer();
  DType dtype();
  void finish() const;

 private:
  std::string_view text_;
  int number_;
  Lexer lexer_;
};

}  // namespace gex::program
