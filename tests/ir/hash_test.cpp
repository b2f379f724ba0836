// Equal graphs hash alike; any change that matters changes the hash.
#include "test_ops.hpp"

namespace gex::test {
namespace {

using StructuralHash = IrTest;

const char* kText =
    "symbols s0 in [2, 64]\n"
    "graph g(%c: bool[], %x: f32[s0, 4], %y: f32[s0, 4]) -> (f32[s0], f32[s0, 4]) ties(1 -> 2) {\n"
    "  %a = test.neg(%x) : f32[s0, 4]\n"
    "  %b = test.add(%a, %y) : f32[s0, 4]\n"
    "  %k = test.constant() {value = f32[2](1.0, 2.0)} : f32[2]\n"
    "  %d = test.clamp(%b, %c) : f32[s0, 4]\n"
    "  %e = test.if(%c, %d) regions(graph (%p: f32[s0, 4]) -> (f32[s0, 4]) {\n"
    "    %n = test.neg(%p) : f32[s0, 4] return %n }, graph (%p: f32[s0, 4]) -> (f32[s0, 4]) {\n"
    "    return %p }) : f32[s0, 4]\n"
    "  %s = test.sum(%e) : f32[s0]\n"
    "  return %s, %d\n}";

std::string edited(std::string text, const std::string& from, const std::string& to) {
  std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST_F(StructuralHash, equal_across_clone_and_text) {
  auto graph = parse_graph(kText);
  auto copy = graph->clone();
  EXPECT_EQ(structural_hash(*graph), structural_hash(*copy));
  EXPECT_TRUE(structurally_equal(*graph, *copy));
  expect_round_trip(*graph);
}

TEST_F(StructuralHash, names_and_locations_do_not_count) {
  auto graph = parse_graph(kText);
  auto other = graph->clone();
  other->set_name("other");
  other->inputs()[0]->set_name("condition");
  other->first()->output()->set_name("");
  other->first()->set_location("elsewhere.py:1");
  EXPECT_EQ(structural_hash(*graph), structural_hash(*other));
  EXPECT_TRUE(structurally_equal(*graph, *other));
}

TEST_F(StructuralHash, every_change_that_matters_counts) {
  auto graph = parse_graph(kText);
  struct Edit {
    const char* from;
    const char* to;
  };
  const Edit edits[] = {
      {"symbols s0 in [2, 64]", "symbols s0 in [2, 65]"},  // symbol identity
      {"%y: f32[s0, 4])", "%y: f32[s0, 4]{1, s0})"},       // strides of an input
      {"%a = test.neg(%x)", "%a = test.neg(%y)"},          // an operand
      {"%a = test.neg(%x)", "%a = test.clamp(%x)"},        // an op
      {"test.add(%a, %y)", "test.add(%y, %a)"},            // order of operands
      {"f32[2](1.0, 2.0)", "f32[2](1.0, 3.0)"},            // contents of a tensor
      {"%n = test.neg(%p)", "%n = test.clamp(%p)"},        // inside a subgraph
      {"test.clamp(%b, %c)", "test.clamp(%b, none, %c)"},  // which input is absent
      {"ties(1 -> 2)", "ties(1 -> 1)"},                    // ties
      {" ties(1 -> 2)", ""},                               //
      {"return %s, %d", "return %s, %b"},                  // outputs
      {"%s = test.sum(%e) : f32[s0]", "%s = test.sum(%d) : f32[s0]"},
      {"%b = test.add(%a, %y)", "%z = test.neg(%a) : f32[s0, 4]\n  %b = test.add(%a, %y)"},
      {"%d = test.clamp(%b, %c) : f32[s0, 4]", "%d = test.clamp(%b, %c) : f32[s0, 4]{1, s0}"},
  };
  for (const Edit& edit : edits) {
    std::string text = edited(kText, edit.from, edit.to);
    if (text.find("%d = test.clamp(%b, %c) : f32[s0, 4]{1, s0}") != std::string::npos)
      text = edited(text, "-> (f32[s0], f32[s0, 4])", "-> (f32[s0], f32[s0, 4]{1, s0})");
    auto other = parse_graph(text);
    EXPECT_NE(structural_hash(*graph), structural_hash(*other)) << edit.to;
    EXPECT_FALSE(structurally_equal(*graph, *other)) << edit.to;
  }
}

TEST_F(StructuralHash, every_attribute_kind_counts) {
  auto hash_with = [](const EveryAttrs& attrs) {
    Graph graph;
    graph.add(op("test.every"), {graph.add_input(f32({4}))}, attrs);
    return structural_hash(graph);
  };
  auto tensor = [](double value) {
    return std::make_shared<HostTensor>(HostTensor::scalar(DType::f32, value));
  };
  Hash base = hash_with({});
  EXPECT_EQ(base, hash_with({}));
  EXPECT_NE(base, hash_with({.flag = true}));
  EXPECT_NE(base, hash_with({.number = 1}));
  EXPECT_NE(base, hash_with({.real = -0.0}));
  EXPECT_NE(base, hash_with({.text = "x"}));
  EXPECT_NE(base, hash_with({.dtype = DType::i8}));
  EXPECT_NE(base, hash_with({.size = 2}));
  EXPECT_NE(base, hash_with({.numbers = {0}}));
  EXPECT_NE(base, hash_with({.reals = {0}}));
  EXPECT_NE(base, hash_with({.sizes = {0}}));
  EXPECT_NE(base, hash_with({.texts = {""}}));
  EXPECT_NE(base, hash_with({.tensor = tensor(0)}));
  EXPECT_NE(hash_with({.tensor = tensor(0)}), hash_with({.tensor = tensor(1)}));
  EXPECT_EQ(hash_with({.tensor = tensor(1)}), hash_with({.tensor = tensor(1)}));
}

TEST_F(StructuralHash, order_of_independent_nodes_counts) {
  const char* text = "graph g(%x: f32[4]) -> (f32[4], f32[4]) {\n";
  auto a = parse_graph(std::string(text) +
                       "%a = test.neg(%x) : f32[4] %b = test.clamp(%x) : f32[4] return %a, %b }");
  auto b = parse_graph(std::string(text) +
                       "%b = test.clamp(%x) : f32[4] %a = test.neg(%x) : f32[4] return %a, %b }");
  EXPECT_NE(structural_hash(*a), structural_hash(*b));
}

TEST_F(StructuralHash, is_the_same_in_every_process) {
  auto graph = parse_graph(
      "graph g(%x: f32[4]) -> (f32[4]) {\n  %a = test.neg(%x) : f32[4]\n  return %a\n}");
  // Cached programs are found by this number: changing it changes the format.
  EXPECT_EQ(structural_hash(*graph), 16764694714887954843u);
}

}  // namespace
}  // namespace gex::test
