// Bad texts: each is rejected with its position and what was expected, and none crashes gex.
#include <random>

#include "test_ops.hpp"

namespace gex::test {
namespace {

using ParseErrors = IrTest;

std::string problem_of(const std::string& text) {
  return user_error([&] { parse_graph(text); }, ErrorCode::parse_error);
}

struct Case {
  const char* text;
  const char* message;
};

TEST_F(ParseErrors, of_the_signature) {
  for (auto [text, message] : {
           Case{"", "1:1: expected 'symbols' or 'graph', got the end of the text"},
           Case{"grph g() -> () { return }", "1:1: expected 'symbols' or 'graph', got 'grph'"},
           Case{"graph", "expected the name of the graph or '(', got the end of the text"},
           Case{"graph g", "expected '(' to open the inputs of a graph"},
           Case{"graph g(%x)", "1:11: expected ':' and a type after the name of an input, got ')'"},
           Case{"graph g(x: f32[2])", "expected an input such as '%x: f32[4]', got 'x'"},
           Case{"graph g(%x: f33[2])", "expected a type such as f32[4, s0] or token, got 'f33'"},
           Case{"graph g(%x: f32)", "expected '[' to open a shape, got ')'"},
           Case{"graph g(%x: f32[2) -> () {}", "expected ']' or ',' in a shape, got ')'"},
           Case{"graph g(%x: f32[2,]) -> () {}", "expected a size, got ']'"},
           Case{"graph g(%x: f32[2]{1, 2}) -> () {}", "expected 1 strides, one for each size"},
           Case{"graph g(%x: f32[2], %x: f32[2])", "1:21: %x is defined twice"},
           Case{"graph g(%: f32[2])", "expected the name of a value after '%'"},
           Case{"graph g() {", "expected '->' and the result types"},
           Case{"graph g() -> () { return", "1:25: expected a value to return or '}'"},
           Case{"graph g() -> () { return } x", "1:28: expected the end of the text, got 'x'"},
           Case{"graph g(%x: f32[2]) -> () { return %x }",
                "the signature has 0 results, the graph returns 1"},
           Case{"graph g(%x: f32[2]) -> (f32[3]) { return %x }",
                "1:24: result 0 is written as f32[3], the graph returns f32[2]"},
           Case{"graph g(%x: f32[2]) -> (f32[2]) ties(0) { return %x }",
                "expected '->' between the output and the input of a tie, got ')'"},
           Case{"graph g(%x: f32[2]) -> (f32[2]) ties(1 -> 0) { return %x }",
                "tie of output 1, but there are 1 outputs"},
           Case{"graph g(%x: f32[2]) -> (f32[2]) ties(0 -> 99999999999) { return %x }",
                "there is no output or input with this number"},
           Case{"graph g(%x: f32[2], %y: f32[3]) -> (f32[2]) ties(0 -> 1) { return %x }",
                "of a different type f32[3]"},
       })
    expect_contains(problem_of(text), message);
}

TEST_F(ParseErrors, of_symbols_and_sizes) {
  for (auto [text, message] : {
           Case{"symbols", "expected the name of a symbol, got the end of the text"},
           Case{"symbols s0, min", "1:13: 'min' can't name a size"},
           Case{"symbols s0, s0 graph", "1:13: the symbol s0 is declared twice"},
           Case{"symbols s0 in [4, 2]", "the range of s0 is empty"},
           Case{"symbols s0 in 4", "expected '[' to open a range, got '4'"},
           Case{"symbols s0 in [a, 2]", "expected an integer, inf or -inf, got 'a'"},
           Case{"symbols s0 in [0, 9223372036854775807]", "too large; write inf"},
           Case{"symbols s0 in [0, 99999999999999999999]", "does not fit 64 bits"},
           Case{"graph g(%x: f32[s0]) -> () { return }",
                "1:17: unknown symbol 's0'; declare it before the graph: symbols s0"},
           Case{"symbols s0\ngraph g(%x: f32[s0 + ]) -> () { return }",
                "2:17: expected a size, got 's0 +'"},
           Case{"symbols s0\ngraph g(%x: f32[s0 / 2]) -> () {}", "2:17: expected a size"},
           Case{"symbols s0\ngraph g(%x: f32[s0 + t]) -> () {}", "2:17: expected a size"},
           Case{"graph g(%x: f32[99999999999999999999]) -> () {}", "1:17: expected a size"},
           Case{"graph g(%x: f32[8//0]) -> () {}", "1:17: expected a size"},
       })
    expect_contains(problem_of(text), message);
}

// `body` is on line 2 of a graph over %x: f32[4].
std::string with_body(const std::string& body) {
  return "graph g(%x: f32[4], %t: token) -> () {\n" + body + "\n  return\n}\n";
}

TEST_F(ParseErrors, of_nodes) {
  for (auto [body, message] : {
           Case{"%0 = test.ned(%x) : f32[4]",
                "2:6: unknown op 'test.ned'; did you mean 'test.neg'?"},
           Case{"%0 = test.neg(%y) : f32[4]", "2:15: %y is not defined before this line"},
           Case{"%0 = test.neg(x) : f32[4]", "2:15: expected a value or none, got 'x'"},
           Case{"%0 = test.neg %x : f32[4]", "expected '(' and the inputs after the name"},
           Case{"%0 = test.neg(%x : f32[4]", "expected ')' or ',' in the inputs of an op"},
           Case{"%0 = test.neg(%x)", "3:3: expected ':' and the types of the results"},
           Case{"%0 = test.neg(%x) : f32[5]",
                "2:21: result 0 of test.neg has type f32[4], but the text says f32[5]"},
           Case{"%0 = test.neg(%x, %x) : f32[4]", "2:6: test.neg: expected 1 input"},
           Case{"%0 = test.neg(none) : f32[4]", "is not optional"},
           Case{"%0, %1 = test.neg(%x) : f32[4], f32[4]", "gives 1 results, the text names 2"},
           Case{"test.neg(%x)", "gives 1 results, the text names 0"},
           Case{"%0, %1 = test.topk(%x) : f32[1]", "expected ',' and the type of the next result"},
           Case{"%0 test.neg(%x)", "expected '=' and an op after the results"},
           Case{"%x = test.neg(%x) : f32[4]", "2:1: %x is defined twice"},
           Case{"%0 = 7(%x) : f32[4]", "expected the name of an op, got '7'"},
           Case{"7", "2:1: expected '%result = op(...)' or 'return', got '7'"},
           Case{"%0 = test.neg(%x) : f32[4] @ here", "expected a location in double quotes"},
           Case{"%0 = test.neg(%x) : f32[4] @ \"open", "2:30: this string has no closing quote"},
           Case{"%0 = test.if(%x, %x) : f32[4]", "expected 2 subgraphs, got 0"},
           Case{"%0 = test.if(%x) regions(7) : f32[4]", "expected 'graph', got '7'"},
           Case{"%0 = test.if(%x) regions(graph () -> (f32[4]) { return %x }) : f32[4]",
                "%x is not defined before this line in this graph (a subgraph sees only its own"},
           Case{"%0 = test.sum(%x) {axis = 3} : f32[4]", "2:6: test.sum: axis 3 of f32[4]"},
       })
    expect_contains(problem_of(with_body(body)), message);
}

TEST_F(ParseErrors, of_attributes) {
  for (auto [attr, message] : {
           Case{"", "expected the name of an attribute, got '}'"},
           Case{"flga = true", "2:21: test.every has no attribute 'flga'; did you mean 'flag'?"},
           Case{"flag = true, flag = true", "2:34: attribute 'flag' is set twice"},
           Case{"flag true", "expected '=' after the name of an attribute"},
           Case{"flag = 1", "2:28: expected true or false, got '1'"},
           Case{"number = 1.5", "expected an integer, got '1.5'"},
           Case{"number = 99999999999999999999", "does not fit 64 bits"},
           Case{"number = -", "expected an integer, got '}'"},
           Case{"real = x", "expected a number, got 'x'"},
           Case{"real = 1e999", "out of range"},
           Case{"real = 0x12345678901234567", "at most 16 hexadecimal digits"},
           Case{"real = 1.2.3", "expected a number, got '1.2.3'"},
           Case{"text = here", "expected a string in double quotes, got 'here'"},
           Case{"text = \"\\q\"", "unknown escape"},
           Case{"text = \"\\x4\"", "unknown escape"},
           Case{"dtype = f33", "expected a dtype (f64, f32,"},
           Case{"size = s9", "unknown symbol 's9'"},
           Case{"numbers = 1", "expected '[' to open a list, got '1'"},
           Case{"numbers = [1, true]", "expected an integer, got 'true'"},
           Case{"numbers = [1 2]", "expected ']' or ',' in a list, got '2'"},
           Case{"tensor = 5", "expected a dtype"},
           Case{"tensor = f32[2]", "expected '(values)', 'splat(value)' or 'base64(\"...\")'"},
           Case{"tensor = f32[2](1.0)", "expected 2 values before here"},
           Case{"tensor = f32[-2](1.0)", "the size of this tensor is invalid"},
           Case{"tensor = f32[4294967296, 4294967296](1.0)", "the size of this tensor is invalid"},
           Case{"tensor = f32[1099511627776] splat(1.0)", "is too large"},
           Case{"tensor = f32[1099511627776](1.0)", "expected 1099511627776 values"},
           Case{"tensor = f32[1] base64(\"AAA\")", "this is not base64"},
           Case{"tensor = f32[1] base64(\"AAAA\")", "expected 4 bytes for a tensor of this shape"},
           Case{"tensor = i8[1](300)", "300 does not fit i8"},
           Case{"tensor = f16[1](0x12345)", "at most 4 hexadecimal digits"},
           Case{"tensor = bool[1](1)", "expected true or false"},
       })
    expect_contains(problem_of(with_body(str("%0 = test.every(%x){", attr, "} : f32[4]"))),
                    message);
}

TEST_F(ParseErrors, deep_nesting_is_refused_not_followed) {
  std::string subgraphs = "graph g() -> () {\n";
  for (int i = 0; i < 100000; ++i) subgraphs += "test.if(%x) regions(graph () -> () {";
  EXPECT_FALSE(problem_of(subgraphs).empty());
  std::string deep = "graph g(%x: f32[1]) -> () {\n";
  for (int i = 0; i < 2000; ++i) deep += "test.if(%x) regions(graph (%x: f32[1]) -> () {";
  expect_contains(problem_of(deep), "nested more than 1024 deep");
  std::string size = "symbols s\ngraph g(%x: f32[" + std::string(100000, '(') + "s";
  expect_contains(problem_of(size), "nested too deeply");
  std::string signs = "symbols s\ngraph g(%x: f32[" + std::string(100000, '-') + "s]) -> () {}";
  expect_contains(problem_of(signs), "2:17");
  std::string sum = "symbols s\ngraph g(%x: f32[s";
  for (int i = 0; i < 100000; ++i) sum += "+s";
  expect_contains(problem_of(sum + "]) -> () {}"), "too long");
}

const char* kSound =
    "symbols s0 in [2, 64], s1\n"
    "graph g(%c: bool[], %x: f32[s0, (s1 + 3)//4]{1, s0}) -> (f32[s0, (s1 + 3)//4]) ties(0 -> 1) "
    "{\n"
    "  %k = test.constant() {value = f32[2](1.0, 0x7fc00001)} : f32[2]\n"
    "  %e = test.every(%x) {text = \"a\\n\\x01\", numbers = [1, -2], sizes = [s0*2, 3], tensor = "
    "i64[3] base64(\"AQAAAAAAAAACAAAAAAAAAAMAAAAAAAAA\")} : f32[s0, (s1 + 3)//4]  @ \"m.py:1\"\n"
    "  %y = test.if(%c, %e) regions(\n"
    "    graph then(%a: f32[s0, (s1 + 3)//4]) -> (f32[s0, (s1 + 3)//4]) {\n"
    "      return %a\n    },\n"
    "    graph else(%a: f32[s0, (s1 + 3)//4]) -> (f32[s0, (s1 + 3)//4]) {\n"
    "      %n = test.clamp(%a, none, none) : f32[s0, (s1 + 3)//4]\n      return %n\n"
    "    }) : f32[s0, (s1 + 3)//4]\n"
    "  return %y\n}\n";

// Parses or throws a UserError(parse_error); anything else fails the test or ends the process.
bool parses(const std::string& text) {
  try {
    parse_graph(text);
    return true;
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::parse_error) << error.what();
    return false;
  }
}

TEST_F(ParseErrors, every_truncation_is_refused) {
  std::string text = kSound;
  ASSERT_TRUE(parses(text));
  for (std::size_t size = 0; size < text.rfind('}'); ++size)
    EXPECT_FALSE(parses(text.substr(0, size))) << text.substr(0, size);
}

TEST_F(ParseErrors, damaged_texts_never_crash_it) {
  std::mt19937 random(7);
  std::string text = kSound;
  const std::string spice = "%(){}[]<>,:=@\"\\+-*/0123456789eExsg.\n \t\xff";
  std::string pieces[] = {"graph", "regions(", "return",  "symbols", "none", "9999999999999999999",
                          "-",     "inf",      "base64(", "splat(",  "f32[", "%x",
                          "//",    "0x",       "1e",      "\""};
  int sound = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = text;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      std::size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged.erase(at, 1 + random() % 20);
          break;
        case 1:
          damaged[at] = spice[random() % spice.size()];
          break;
        case 2:
          damaged.insert(at, pieces[random() % std::size(pieces)]);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 40));
      }
      if (damaged.empty()) damaged = " ";
    }
    sound += parses(damaged);
  }
  EXPECT_GT(sound, 0);  // some damage hits only names and numbers
  EXPECT_LT(sound, 10000);
}

}  // namespace
}  // namespace gex::test
