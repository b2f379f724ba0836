// The text form: what is printed, and that it parses back to the same graph.
#include <cmath>
#include <limits>

#include "test_ops.hpp"

namespace gex::test {
namespace {

using TextForm = IrTest;

TEST_F(TextForm, prints_signature_nodes_and_return) {
  Graph graph("main");
  Dim s0 = Dim::symbol("s0", {2, 4096});
  Type column_major = f32({128, 64});
  column_major.strides = {1, 128};
  Value* x = graph.add_input(f32({s0, 128}), "x");
  graph.add_input(column_major, "w");
  Node* sum = graph.add(op("test.sum"), {x}, ReduceAttrs{.axis = 0});
  sum->set_location("model.py:12");
  Node* top = graph.add(op("test.topk"), {x}, TopkAttrs{.k = 4});
  graph.set_outputs({sum->output(), top->output(1)});
  EXPECT_EQ(print(graph),
            "symbols s0 in [2, 4096]\n"
            "graph main(%x: f32[s0, 128], %w: f32[128, 64]{1, 128}) -> (f32[128], i64[s0, 4]) {\n"
            "  %0 = test.sum(%x) {axis = 0} : f32[128]  @ \"model.py:12\"\n"
            "  %1, %2 = test.topk(%x) {k = 4} : f32[s0, 4], i64[s0, 4]\n"
            "  return %0, %2\n"
            "}\n");
  expect_round_trip(graph);
  EXPECT_EQ(parse_graph(print(graph))->first()->location(), "model.py:12");
}

TEST_F(TextForm, prints_ties) {
  auto graph = parse_graph(
      "graph step(%cache: f32[8], %x: f32[8]) -> (f32[8]) ties(0 -> 0) {\n"
      "  %new = test.add(%cache, %x) : f32[8]\n"
      "  return %new\n"
      "}\n");
  ASSERT_EQ(graph->ties().size(), 1u);
  EXPECT_EQ(graph->ties()[0], (Tie{0, 0}));
  EXPECT_EQ(graph->first()->output()->name(), "new");
  expect_contains(print(*graph), "ties(0 -> 0) {");
  expect_round_trip(*graph);
}

TEST_F(TextForm, prints_labels_of_nodes_and_graphs) {
  auto graph = parse_graph(
      "graph g(%x: f32[8]) -> (f32[8]) labels(kept = true) {\n"
      "  %0 = test.clamp(%x) labels(b = -3, a = \"x y\") : f32[8]\n"
      "  return %0\n"
      "}\n");
  EXPECT_EQ(*find_label(graph->first()->labels(), "b"), AttrValue(std::int64_t{-3}));
  EXPECT_EQ(find_label(graph->labels(), "b"), nullptr);
  expect_contains(print(*graph), "-> (f32[8]) labels(kept = true) {");
  expect_contains(print(*graph), "test.clamp(%x, none, none) labels(a = \"x y\", b = -3) : f32[8]");
  expect_round_trip(*graph);
  auto plain = graph->clone();
  EXPECT_TRUE(structurally_equal(*graph, *plain));
  plain->first()->set_labels({});
  EXPECT_FALSE(structurally_equal(*graph, *plain));
  EXPECT_NE(structural_hash(*graph), structural_hash(*plain));
}

TEST_F(TextForm, labels_are_bools_integers_and_strings_under_identifiers) {
  Labels labels;
  EXPECT_THROW(set_label(labels, "a b", true), UserError);
  EXPECT_THROW(set_label(labels, "ratio", 0.5), UserError);
  set_label(labels, "z", std::int64_t{1});
  set_label(labels, "a", true);
  set_label(labels, "z", std::string("new"));
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(labels[0].first, "a");
  EXPECT_EQ(labels[1].second, AttrValue(std::string("new")));
  EXPECT_THROW(parse_graph("graph g(%x: f32[8]) -> (f32[8]) labels(a = 1, a = 2) { return %x }"),
               UserError);
}

TEST_F(TextForm, prints_absent_optional_inputs_as_none) {
  auto graph = parse_graph(
      "graph g(%x: f32[8], %h: f32[]) -> (f32[8], f32[8]) {\n"
      "  %0 = test.clamp(%x, none, %h) : f32[8]\n"
      "  %1 = test.clamp(%0) : f32[8]\n"
      "  return %0, %1\n"
      "}\n");
  EXPECT_FALSE(graph->first()->has_input(1));
  EXPECT_TRUE(graph->first()->has_input(2));
  EXPECT_EQ(graph->last()->inputs().size(), 3u);
  expect_contains(print(*graph), "test.clamp(%x, none, %h)");
  expect_contains(print(*graph), "test.clamp(%0, none, none)");
  expect_round_trip(*graph);
}

TEST_F(TextForm, prints_subgraphs_as_regions) {
  const char* text =
      "symbols s0\n"
      "graph main(%c: bool[], %x: f32[s0]) -> (f32[s0]) {\n"
      "  %0 = test.if(%c, %x) regions(\n"
      "    graph then(%a: f32[s0]) -> (f32[s0]) {\n"
      "      %0 = test.neg(%a) : f32[s0]\n"
      "      return %0\n"
      "    },\n"
      "    graph (%a: f32[s0]) -> (f32[s0]) {\n"
      "      return %a\n"
      "    }) : f32[s0]  @ \"here\"\n"
      "  return %0\n"
      "}\n";
  auto graph = parse_graph(text);
  EXPECT_EQ(graph->first()->subgraphs().size(), 2u);
  EXPECT_EQ(print(*graph), text);
  expect_round_trip(*graph);
}

TEST_F(TextForm, prints_tokens_and_nodes_without_results) {
  const char* text =
      "graph main(%x: f32[4]) -> () {\n"
      "  %0 = test.start() : token\n"
      "  %1 = test.log(%0, %x) : token\n"
      "  test.drop(%x)\n"
      "  return\n"
      "}\n";
  auto graph = parse_graph(text);
  EXPECT_EQ(print(*graph), text);
  expect_round_trip(*graph);
}

TEST_F(TextForm, keeps_every_attribute_kind) {
  Graph graph;
  Dim s0 = Dim::symbol("s0");
  Dim u1 = Dim::symbol("u1", {0, 9});
  Value* x = graph.add_input(f32({s0}), "x");
  EveryAttrs attrs;
  attrs.flag = true;
  attrs.number = std::numeric_limits<std::int64_t>::min();
  attrs.real = 0.1;
  attrs.text = "a \"quoted\" \\ line\nand\ttab \x01 \x7f é";
  attrs.dtype = DType::bf16;
  attrs.size = floordiv(s0 + 7, 8);
  attrs.numbers = {1, -2, std::numeric_limits<std::int64_t>::max()};
  attrs.reals = {1.0, -0.0, 1e300, 5e-324};
  attrs.sizes = {s0 * 8 + 1, mod(s0, 8), min(s0, u1), 4};
  attrs.texts = {"", "a, b", "]"};
  attrs.tensor = std::make_shared<HostTensor>(HostTensor::scalar(DType::f32, 2.5));
  Node* node = graph.add(op("test.every"), {x}, attrs);
  graph.set_outputs({node->output()});
  expect_round_trip(graph);
  expect_contains(print(graph), "flag = true");
  expect_contains(print(graph), "real = 0.1,");
  expect_contains(print(graph), "tensor = f32[](2.5)");
  expect_contains(print(graph), "u1 in [0, 9]");
}

TEST_F(TextForm, leaves_default_attributes_out) {
  Graph graph;
  Value* x = graph.add_input(f32({4, 4}), "x");
  graph.set_outputs({graph.add(op("test.sum"), {x}, ReduceAttrs{})->output()});
  expect_contains(print(graph), "test.sum(%x) : f32[4]");
  expect_round_trip(graph);
}

TEST_F(TextForm, keeps_doubles_bit_for_bit) {
  double inf = std::numeric_limits<double>::infinity();
  for (double value : {0.1, -0.0, 1.0 / 3, 5e-324, 1.7976931348623157e308, inf, -inf, 1e22, 123.0,
                       std::nan(""), std::nan("7"), -std::nan("")}) {
    Graph graph;
    EveryAttrs attrs;
    attrs.real = value;
    Node* node = graph.add(op("test.every"), {graph.add_input(f32({}))}, attrs);
    graph.set_outputs({node->output()});
    expect_round_trip(graph);
  }
}

TensorPtr tensor_of_bits(DType dtype, std::vector<std::int64_t> shape, std::uint64_t seed) {
  auto tensor = std::make_shared<HostTensor>(dtype, std::move(shape));
  for (std::size_t i = 0; i < tensor->bytes(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    tensor->data()[i] = static_cast<std::byte>(seed >> 56);
  }
  return tensor;
}

// Any bit pattern: signalling NaNs, odd booleans, denormals.
TEST_F(TextForm, keeps_constant_tensors_of_every_dtype_bit_for_bit) {
  for (int d = 0; d < kDTypeCount; ++d)
    for (std::vector<std::int64_t> shape :
         {std::vector<std::int64_t>{}, {1}, {0}, {3, 2}, {16}, {17}, {5, 31}})
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        Graph graph;
        auto value = tensor_of_bits(static_cast<DType>(d), shape, seed);
        Node* node = graph.add(op("test.constant"), {}, ConstantAttrs{value});
        graph.set_outputs({node->output()});
        expect_round_trip(graph);
      }
}

TEST_F(TextForm, prints_repeated_values_as_splat) {
  Graph graph;
  auto ones = std::make_shared<HostTensor>(DType::f32, std::vector<std::int64_t>{64, 64});
  for (std::int64_t i = 0; i < ones->numel(); ++i) ones->set(i, 1.0);
  Node* node = graph.add(op("test.constant"), {}, ConstantAttrs{ones});
  graph.set_outputs({node->output()});
  expect_contains(print(graph), "value = f32[64, 64] splat(1.0)}");
  expect_round_trip(graph);
}

TEST_F(TextForm, makes_names_unique_and_valid) {
  Graph graph("odd name");
  Value* a = graph.add_input(f32({4}), "x");
  Value* b = graph.add_input(f32({4}), "x");
  Value* c = graph.add_input(f32({4}), "x_1");
  Value* d = graph.add_input(f32({4}), "7 of nine");
  graph.set_outputs({a, b, c, d});
  expect_contains(print(graph),
                  "graph \"odd name\"(%x: f32[4], %x_1: f32[4], %x_1_1: f32[4], %_7_of_nine: ");
  expect_round_trip(graph);
}

TEST_F(TextForm, reads_comments_and_free_line_breaks) {
  auto graph = parse_graph(
      "// a comment\nsymbols s0, // sizes\n s1 in [2, inf]\n"
      "graph g(\n%x: f32[s0, // rows\n (s1 + 3)//4]) -> (f32[s0, (s1+3)//4])\n{ %y = \n"
      "test.neg(%x) // minus\n: f32[s0, (s1 + 3)//4] return %y } // the end");
  EXPECT_EQ(graph->num_nodes(), 1u);
  EXPECT_EQ(graph->inputs()[0]->type().shape[1],
            floordiv(Dim::symbol("s1", {2, DimRange::kInf}) + 3, 4));
  expect_round_trip(*graph);
}

TEST_F(TextForm, keeps_strides_of_results) {
  auto graph = parse_graph(
      "graph g(%x: f32[4, 8]) -> (f32[4, 8]{1, 4}) {\n"
      "  %y = test.neg(%x) : f32[4, 8]{1, 4}\n  return %y\n}");
  ASSERT_TRUE(graph->outputs()[0]->type().strides.has_value());
  expect_round_trip(*graph);
}

TEST_F(TextForm, prints_one_node_for_messages) {
  auto graph = parse_graph(
      "graph g(%c: bool[], %x: f32[4]) -> (f32[4]) {\n"
      "  %y = test.if(%c, %x) regions(graph (%a: f32[4]) -> (f32[4]) { return %a }, graph (%a: "
      "f32[4]) -> (f32[4]) { return %a }) : f32[4] @ \"there\"\n  return %y\n}");
  EXPECT_EQ(print_node(*graph->first()), "%y = test.if(%c, %x) regions(...) : f32[4]");
}

}  // namespace
}  // namespace gex::test
