// Patterns and rewrites, text in and text out.
#include "ir/matcher.hpp"

#include "test_ops.hpp"

namespace gex::test {
namespace {

using Matcher = IrTest;

Pattern pattern(const char* text) { return Pattern::from(parse_graph(text)); }

// The nodes and the return line, after verifying the graph.
std::string body_of(const Graph& graph) {
  verify(graph);
  std::string text = print(graph);
  std::size_t start = text.find("{\n") + 2;
  return text.substr(start, text.rfind('}') - start);
}

const char* kNegNeg =
    "graph p(%x: f32[4]) -> (f32[4]) {\n"
    "  %a = test.neg(%x) : f32[4]\n  %b = test.neg(%a) : f32[4]\n  return %b\n}";

std::vector<Value*> first_input(Graph&, const Match& match) { return {match.inputs[0]}; }

TEST_F(Matcher, replaces_a_chain_and_removes_it) {
  auto graph = parse_graph(
      "graph g(%x: f32[8]) -> (f32[8]) {\n"
      "  %0 = test.neg(%x) : f32[8]\n  %1 = test.neg(%0) : f32[8]\n"
      "  %2 = test.add(%1, %x) : f32[8]\n  return %2\n}");
  int count = 0;
  EXPECT_TRUE(apply_rewrite(*graph, pattern(kNegNeg), {}, first_input, &count));
  EXPECT_EQ(count, 1);
  EXPECT_EQ(body_of(*graph), "  %0 = test.add(%x, %x) : f32[8]\n  return %0\n");
  EXPECT_FALSE(apply_rewrite(*graph, pattern(kNegNeg), {}, first_input, &count));
  EXPECT_EQ(count, 1);
}

TEST_F(Matcher, returns_matched_inputs_nodes_and_outputs) {
  auto graph = parse_graph(
      "graph g(%x: f32[8]) -> (f32[8]) {\n"
      "  %0 = test.neg(%x) : f32[8]\n  %1 = test.neg(%0) : f32[8]\n  return %1\n}");
  auto match = pattern(kNegNeg).match_at(graph->last());
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->inputs, std::vector<Value*>{graph->inputs()[0].get()});
  EXPECT_EQ(match->nodes, (std::vector<Node*>{graph->first(), graph->last()}));
  EXPECT_EQ(match->outputs, std::vector<Value*>{graph->last()->output()});
  EXPECT_FALSE(pattern(kNegNeg).match_at(graph->first()).has_value());
}

TEST_F(Matcher, not_when_an_inner_value_is_used_outside) {
  for (const char* text : {"graph g(%x: f32[8]) -> (f32[8], f32[8]) {\n"
                           "  %0 = test.neg(%x) : f32[8]\n  %1 = test.neg(%0) : f32[8]\n"
                           "  return %0, %1\n}",
                           "graph g(%x: f32[8]) -> (f32[8]) {\n"
                           "  %0 = test.neg(%x) : f32[8]\n  %1 = test.neg(%0) : f32[8]\n"
                           "  %2 = test.add(%0, %1) : f32[8]\n  return %2\n}"}) {
    auto graph = parse_graph(text);
    Hash before = structural_hash(*graph);
    EXPECT_FALSE(apply_rewrite(*graph, pattern(kNegNeg), {}, first_input));
    EXPECT_EQ(structural_hash(*graph), before);
  }
}

TEST_F(Matcher, allows_an_inner_value_that_is_also_a_pattern_output) {
  Pattern both = pattern(
      "graph p(%x: f32[4]) -> (f32[4], f32[4]) {\n"
      "  %a = test.neg(%x) : f32[4]\n  %b = test.neg(%a) : f32[4]\n  return %b, %a\n}");
  auto graph = parse_graph(
      "graph g(%x: f32[8]) -> (f32[8], f32[8]) {\n"
      "  %0 = test.neg(%x) : f32[8]\n  %1 = test.neg(%0) : f32[8]\n  return %0, %1\n}");
  EXPECT_TRUE(apply_rewrite(*graph, both, {}, [](Graph&, const Match& match) {
    return std::vector<Value*>{match.inputs[0], match.nodes[0]->output()};
  }));
  EXPECT_EQ(body_of(*graph), "  %0 = test.neg(%x) : f32[8]\n  return %0, %x\n");
}

TEST_F(Matcher, tries_both_orders_of_commutative_inputs) {
  Pattern p = pattern(
      "graph p(%x: f32[4], %y: f32[4]) -> (f32[4]) {\n"
      "  %a = test.neg(%x) : f32[4]\n  %b = test.add(%y, %a) : f32[4]\n  return %b\n}");
  for (const char* add : {"test.add(%0, %y)", "test.add(%y, %0)"}) {
    auto graph =
        parse_graph(str("graph g(%x: f32[8], %y: f32[8]) -> (f32[8]) {\n",
                        "  %0 = test.neg(%x) : f32[8]\n  %1 = ", add, " : f32[8]\n  return %1\n}"));
    EXPECT_TRUE(apply_rewrite(*graph, p, {}, [](Graph& g, const Match& match) {
      return std::vector<Value*>{g.add("test.sub", {match.inputs[1], match.inputs[0]})->output()};
    }));
    EXPECT_EQ(body_of(*graph), "  %0 = test.sub(%y, %x) : f32[8]\n  return %0\n");
  }
}

TEST_F(Matcher, not_in_the_other_order_of_other_ops) {
  Pattern p = pattern(
      "graph p(%x: f32[4], %y: f32[4]) -> (f32[4]) {\n"
      "  %a = test.neg(%x) : f32[4]\n  %b = test.sub(%y, %a) : f32[4]\n  return %b\n}");
  auto graph = parse_graph(
      "graph g(%x: f32[8], %y: f32[8]) -> (f32[8]) {\n"
      "  %0 = test.neg(%x) : f32[8]\n  %1 = test.sub(%0, %y) : f32[8]\n  return %1\n}");
  EXPECT_FALSE(p.match_at(graph->last()).has_value());
}

// The outer node's first order matches by itself and fails only two levels below.
TEST_F(Matcher, backtracks_over_several_commutative_nodes) {
  Pattern p = pattern(
      "graph p(%x: f32[4], %y: f32[4]) -> (f32[4]) {\n"
      "  %a = test.mul(%x, %y) : f32[4]\n  %b = test.mul(%y, %y) : f32[4]\n"
      "  %c = test.add(%a, %x) : f32[4]\n  %d = test.add(%b, %x) : f32[4]\n"
      "  %e = test.add(%c, %d) : f32[4]\n  return %e\n}");
  auto graph = parse_graph(
      "graph g(%u: f32[8], %v: f32[8]) -> (f32[8]) {\n"
      "  %b = test.mul(%u, %u) : f32[8]\n  %a = test.mul(%u, %v) : f32[8]\n"
      "  %d = test.add(%v, %b) : f32[8]\n  %c = test.add(%v, %a) : f32[8]\n"
      "  %e = test.add(%d, %c) : f32[8]\n  return %e\n}");
  auto match = p.match_at(graph->last());
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->inputs[0]->name(), "v");
  EXPECT_EQ(match->inputs[1]->name(), "u");
  EXPECT_EQ(match->nodes[0]->output()->name(), "a");
}

TEST_F(Matcher, repeated_pattern_inputs_must_be_one_value) {
  Pattern doubled = pattern(
      "graph p(%x: f32[4]) -> (f32[4]) {\n  %a = test.add(%x, %x) : f32[4]\n  return %a\n}");
  auto graph = parse_graph(
      "graph g(%x: f32[8], %y: f32[8]) -> (f32[8]) {\n"
      "  %0 = test.add(%x, %y) : f32[8]\n  %1 = test.add(%0, %0) : f32[8]\n  return %1\n}");
  EXPECT_FALSE(doubled.match_at(graph->first()).has_value());
  EXPECT_TRUE(doubled.match_at(graph->last()).has_value());
}

TEST_F(Matcher, compares_attributes_unless_marked_any) {
  const char* text =
      "graph p(%x: f32[4, 4]) -> (f32[4]) {\n"
      "  %s = test.sum(%x) {axis = 0} : f32[4]\n  return %s\n}";
  auto graph = parse_graph(
      "graph g(%x: f32[8, 2]) -> (f32[8]) {\n"
      "  %0 = test.sum(%x) {axis = 1} : f32[8]\n  return %0\n}");
  EXPECT_FALSE(pattern(text).match_at(graph->first()).has_value());
  EXPECT_FALSE(pattern(text).any_attr("s", "keepdim").match_at(graph->first()).has_value());
  EXPECT_TRUE(pattern(text).any_attr("s", "axis").match_at(graph->first()).has_value());
  EXPECT_TRUE(pattern(text).any_attr("s").match_at(graph->first()).has_value());
  expect_contains(user_error([&] { pattern(text).any_attr("s", "axes"); }, ErrorCode::not_found),
                  "did you mean 'axis'?");
  expect_contains(user_error([&] { pattern(text).any_attr("t"); }, ErrorCode::not_found), "'t'");
}

TEST_F(Matcher, absent_inputs_match_absent_inputs_only) {
  Pattern p = pattern(
      "graph p(%x: f32[4], %l: f32[]) -> (f32[4]) {\n"
      "  %c = test.clamp(%x, %l) : f32[4]\n  return %c\n}");
  auto graph = parse_graph(
      "graph g(%x: f32[4], %l: f32[]) -> (f32[4]) {\n"
      "  %0 = test.clamp(%x, none, %l) : f32[4]\n  %1 = test.clamp(%0, %l) : f32[4]\n"
      "  %2 = test.clamp(%1, %l, %l) : f32[4]\n  return %2\n}");
  EXPECT_FALSE(p.match_at(graph->first()).has_value());
  EXPECT_TRUE(p.match_at(graph->first()->next()).has_value());
  EXPECT_FALSE(p.match_at(graph->last()).has_value());
}

TEST_F(Matcher, constants_may_be_shared_with_the_rest) {
  const char* text =
      "graph p(%x: f32[4]) -> (f32[4]) {\n"
      "  %one = test.constant() {value = f32[](1.0)} : f32[]\n"
      "  %y = test.mul(%x, %one) : f32[4]\n  return %y\n}";
  auto graph = parse_graph(
      "graph g(%x: f32[4]) -> (f32[4], f32[4]) {\n"
      "  %one = test.constant() {value = f32[](1.0)} : f32[]\n"
      "  %0 = test.mul(%one, %x) : f32[4]\n  %1 = test.add(%0, %one) : f32[4]\n"
      "  return %0, %1\n}");
  EXPECT_TRUE(apply_rewrite(*graph, pattern(text), {}, first_input));
  EXPECT_EQ(body_of(*graph),
            "  %one = test.constant() {value = f32[](1.0)} : f32[]\n"
            "  %0 = test.add(%x, %one) : f32[4]\n  return %x, %0\n");
}

TEST_F(Matcher, condition_decides) {
  auto graph = parse_graph(
      "graph g(%x: f32[8]) -> (f32[8]) {\n"
      "  %0 = test.neg(%x) : f32[8]\n  %1 = test.neg(%0) : f32[8]\n  return %1\n}");
  auto size_is = [](std::int64_t n) {
    return [n](const Match& match) { return match.outputs[0]->type().shape[0] == Dim(n); };
  };
  EXPECT_FALSE(apply_rewrite(*graph, pattern(kNegNeg), size_is(4), first_input));
  EXPECT_TRUE(apply_rewrite(*graph, pattern(kNegNeg), size_is(8), first_input));
}

TEST_F(Matcher, overlapping_matches_are_replaced_once) {
  auto graph = parse_graph(
      "graph g(%x: f32[8]) -> (f32[8]) {\n"
      "  %0 = test.neg(%x) : f32[8]\n  %1 = test.neg(%0) : f32[8]\n"
      "  %2 = test.neg(%1) : f32[8]\n  return %2\n}");
  int count = 0;
  EXPECT_TRUE(apply_rewrite(*graph, pattern(kNegNeg), {}, first_input, &count));
  EXPECT_EQ(count, 1);
  EXPECT_EQ(body_of(*graph), "  %0 = test.neg(%x) : f32[8]\n  return %0\n");
}

TEST_F(Matcher, keeps_location_and_name_of_what_it_replaces) {
  auto graph = parse_graph(
      "graph g(%x: f32[8]) -> (f32[8]) {\n"
      "  %0 = test.neg(%x) : f32[8]\n  %y = test.neg(%0) : f32[8] @ \"model.py:3\"\n"
      "  return %y\n}");
  EXPECT_TRUE(apply_rewrite(*graph, pattern(kNegNeg), {}, [](Graph& g, const Match& match) {
    return std::vector<Value*>{g.add("test.add", {match.inputs[0], match.inputs[0]})->output()};
  }));
  EXPECT_EQ(body_of(*graph), "  %y = test.add(%x, %x) : f32[8]  @ \"model.py:3\"\n  return %y\n");
}

TEST_F(Matcher, not_when_the_promised_layout_of_an_output_would_be_lost) {
  auto graph = parse_graph(
      "graph g(%x: f32[4, 8]) -> (f32[4, 8]{1, 4}) {\n"
      "  %0 = test.neg(%x) : f32[4, 8]\n  %1 = test.neg(%0) : f32[4, 8]{1, 4}\n  return %1\n}");
  Hash before = structural_hash(*graph);
  EXPECT_FALSE(apply_rewrite(*graph, pattern(kNegNeg), {}, first_input));
  EXPECT_EQ(structural_hash(*graph), before);
  // A new value can take the layout over.
  EXPECT_TRUE(apply_rewrite(*graph, pattern(kNegNeg), {}, [](Graph& g, const Match& match) {
    return std::vector<Value*>{g.add("test.add", {match.inputs[0], match.inputs[0]})->output()};
  }));
  EXPECT_EQ(body_of(*graph), "  %0 = test.add(%x, %x) : f32[4, 8]{1, 4}\n  return %0\n");
}

const char* kTwoSums =
    "graph p(%x: f32[4, 4]) -> (f32[4], f32[4]) {\n"
    "  %a = test.sum(%x) : f32[4]\n  %b = test.sum(%x) {axis = 0} : f32[4]\n  return %a, %b\n}";

std::vector<Value*> sums_of_negative(Graph& graph, const Match& match) {
  Value* n = graph.add("test.neg", {match.inputs[0]})->output();
  return {graph.add("test.sum", {n})->output(),
          graph.add("test.sum", {n}, {{"axis", std::int64_t{0}}})->output()};
}

TEST_F(Matcher, finds_second_roots_through_shared_values) {
  auto graph = parse_graph(
      "graph g(%x: f32[8, 8]) -> (f32[8], f32[8]) {\n"
      "  %0 = test.sum(%x) {axis = 0} : f32[8]\n  %1 = test.sum(%x) : f32[8]\n"
      "  return %0, %1\n}");
  EXPECT_TRUE(apply_rewrite(*graph, pattern(kTwoSums), {}, sums_of_negative));
  EXPECT_EQ(body_of(*graph),
            "  %0 = test.neg(%x) : f32[8, 8]\n  %1 = test.sum(%0) : f32[8]\n"
            "  %2 = test.sum(%0) {axis = 0} : f32[8]\n  return %2, %1\n");
}

// The first root is read before the second is computed: the match is moved above the reader.
TEST_F(Matcher, moves_separated_roots_together) {
  auto graph = parse_graph(
      "graph g(%x: f32[8, 8]) -> (f32[8], f32[8]) {\n"
      "  %0 = test.sum(%x) {axis = 0} : f32[8]\n  %1 = test.neg(%0) : f32[8]\n"
      "  %2 = test.sum(%x) : f32[8]\n  return %1, %2\n}");
  EXPECT_TRUE(apply_rewrite(*graph, pattern(kTwoSums), {}, sums_of_negative));
  EXPECT_EQ(body_of(*graph),
            "  %0 = test.neg(%x) : f32[8, 8]\n  %1 = test.sum(%0) : f32[8]\n"
            "  %2 = test.sum(%0) {axis = 0} : f32[8]\n  %3 = test.neg(%2) : f32[8]\n"
            "  return %3, %1\n");
}

TEST_F(Matcher, not_when_one_output_is_needed_for_an_input) {
  Pattern two = pattern(
      "graph p(%x: f32[4], %y: f32[4], %z: f32[4]) -> (f32[4], f32[4]) {\n"
      "  %a = test.sub(%x, %y) : f32[4]\n  %b = test.sub(%x, %z) : f32[4]\n  return %a, %b\n}");
  auto graph = parse_graph(
      "graph g(%x: f32[8], %y: f32[8]) -> (f32[8]) {\n"
      "  %0 = test.sub(%x, %y) : f32[8]\n  %1 = test.neg(%0) : f32[8]\n"
      "  %2 = test.sub(%x, %1) : f32[8]\n  return %2\n}");
  ASSERT_TRUE(two.match_at(graph->first()).has_value());
  Hash before = structural_hash(*graph);
  EXPECT_FALSE(apply_rewrite(*graph, two, {}, [](Graph& g, const Match& match) {
    return std::vector<Value*>{g.add("test.add", {match.inputs[0], match.inputs[1]})->output(),
                               g.add("test.add", {match.inputs[0], match.inputs[2]})->output()};
  }));
  EXPECT_EQ(structural_hash(*graph), before);
}

TEST_F(Matcher, not_when_an_input_would_be_an_output) {
  Pattern two = pattern(
      "graph p(%x: f32[4], %y: f32[4], %z: f32[4]) -> (f32[4], f32[4]) {\n"
      "  %a = test.sub(%x, %y) : f32[4]\n  %b = test.sub(%x, %z) : f32[4]\n  return %a, %b\n}");
  auto graph = parse_graph(
      "graph g(%x: f32[8], %y: f32[8]) -> (f32[8]) {\n"
      "  %0 = test.sub(%x, %y) : f32[8]\n  %1 = test.sub(%x, %0) : f32[8]\n  return %1\n}");
  EXPECT_FALSE(two.match_at(graph->first()).has_value());
  EXPECT_FALSE(two.match_at(graph->last()).has_value());
}

TEST_F(Matcher, rejects_invalid_patterns) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (auto [text, message] :
       {Case{"graph p(%x: f32[4]) -> (f32[4]) { return %x }", "must be computed"},
        Case{"graph p() -> () { return }", "no output"},
        Case{"graph p(%x: f32[4], %y: f32[4]) -> (f32[4]) {\n %a = test.neg(%x) : f32[4]\n"
             " return %a }",
             "input 1 is not used"},
        Case{"graph p(%x: f32[4]) -> (f32[4]) {\n %a = test.neg(%x) : f32[4]\n"
             " %b = test.neg(%x) : f32[4]\n return %a }",
             "is not used by an output"},
        Case{"graph p(%x: f32[4], %y: f32[4]) -> (f32[4], f32[4]) {\n %a = test.neg(%x) : f32[4]\n"
             " %b = test.neg(%y) : f32[4]\n return %a, %b }",
             "share no value"},
        Case{"graph p(%t: token, %x: f32[4]) -> (token) {\n %a = test.log(%t, %x) : token\n"
             " return %a }",
             "has an effect"}})
    expect_contains(user_error([&, text = text] { pattern(text); }, ErrorCode::invalid_argument),
                    message);
}

TEST_F(Matcher, refuses_a_replacement_of_another_type) {
  auto graph = parse_graph(
      "graph g(%x: f32[8], %y: f32[9]) -> (f32[8]) {\n"
      "  %0 = test.neg(%x) : f32[8]\n  %1 = test.neg(%0) : f32[8]\n  return %1\n}");
  Value* y = graph->inputs()[1].get();
  std::string message = user_error(
      [&] {
        apply_rewrite(*graph, pattern(kNegNeg), {},
                      [&](Graph&, const Match&) { return std::vector<Value*>{y}; });
      },
      ErrorCode::type_mismatch);
  expect_contains(message, "%1 = test.neg(%0) : f32[8]");
  expect_contains(message, "f32[9]");
}

}  // namespace
}  // namespace gex::test
