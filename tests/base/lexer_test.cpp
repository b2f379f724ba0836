// One lexer for graphs, loop kernels and programs.

#include "base/text/lexer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gex {
namespace {

std::vector<std::string> tokens(std::string_view text, const TextForm& form) {
  Lexer lexer(text, form);
  std::vector<std::string> all;
  while (lexer.peek().kind != Token::Kind::end) all.emplace_back(lexer.next().text);
  return all;
}

std::string error_of(void (*run)()) {
  try {
    run();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

using Words = std::vector<std::string>;

TEST(Lexer, FormsDifferInCommentsPairsAndWords) {
  EXPECT_EQ(tokens("%a.1 -> f32 // rest\n1e-5", kGraphText), (Words{"a.1", "->", "f32", "1e-5"}));
  EXPECT_EQ(tokens("x <- y // 2 # rest\n%", kLoopText), (Words{"x", "<-", "y", "//", "2", "%"}));
  EXPECT_EQ(tokens("input %3 -> -5 (0xff) <= \"a b\"", kProgramText),
            (Words{"input", "%3", "->", "-5", "(", "0xff", ")", "<=", "\"a b\""}));
}

TEST(Lexer, TakesSizesAsRawText) {
  Lexer shape("[s0 // (2 + s1), 4 ]", kGraphText);
  shape.expect("[", "");
  EXPECT_EQ(shape.raw_dim(), "s0 // (2 + s1)");
  shape.expect(",");
  EXPECT_EQ(shape.raw_dim(), "4");
  shape.expect("]");
  shape.expect_end();
  Lexer none("[] next", kProgramText);
  none.expect("[");
  EXPECT_EQ(none.raw_until("]", {}), "");
  none.expect("]");
  EXPECT_TRUE(none.at("next"));
}

TEST(Lexer, LooksAheadAndReadsLiterals) {
  Lexer lexer("acc sum : f32 = -inf", kLoopText);
  EXPECT_EQ(lexer.ahead(2), ":");
  EXPECT_EQ(lexer.ahead(9), "");
  EXPECT_FALSE(lexer.at_literal());
  while (!lexer.accept("=")) lexer.next();
  EXPECT_TRUE(lexer.at_literal());
  EXPECT_EQ(lexer.expect_literal(), "-inf");
}

TEST(Lexer, ErrorsNameTheFormThePositionAndTheToken) {
  EXPECT_NE(error_of([] {
              Lexer("a\n  b", kLoopText).expect("kernel");
            }).find("loop text 1:1: expected 'kernel', got 'a'"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              Lexer("\"open", kProgramText, 7);
            }).find("program text 7:1: this string has no closing quote"),
            std::string::npos);
  EXPECT_NE(
      error_of([] { Lexer("\"\\q\"", kGraphText).expect_string("a name"); }).find("unknown escape"),
      std::string::npos);
}

}  // namespace
}  // namespace gex
