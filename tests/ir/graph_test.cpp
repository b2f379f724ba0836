// Building and changing graphs.
#include "test_ops.hpp"

namespace gex::test {
namespace {

using GraphTest = IrTest;

std::unique_ptr<Graph> chain() {
  return parse_graph(
      "graph g(%x: f32[8], %y: f32[8]) -> (f32[8]) {\n"
      "  %a = test.neg(%x) : f32[8] @ \"model.py:1\"\n"
      "  %b = test.add(%a, %y) : f32[8] @ \"model.py:2\"\n"
      "  %c = test.neg(%b) : f32[8]\n  return %c\n}");
}

std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.op().name);
  return names;
}

TEST_F(GraphTest, add_infers_types_and_links_values) {
  Graph graph;
  Value* x = graph.add_input(f32({4, 1}), "x");
  Value* y = graph.add_input(f32({8}), "y");
  Node* node = graph.add("test.add", {x, y});
  EXPECT_EQ(node->output()->type(), f32({4, 8}));
  EXPECT_EQ(node->output()->producer(), node);
  EXPECT_EQ(&node->output()->graph(), &graph);
  EXPECT_EQ(x->uses(), (std::vector<Use>{{node, 0}}));
  EXPECT_EQ(y->uses(), (std::vector<Use>{{node, 1}}));
  EXPECT_TRUE(x->is_input());
  EXPECT_EQ(y->index(), 1);
}

TEST_F(GraphTest, add_fills_defaults_and_converts_numbers) {
  Graph graph;
  Value* x = graph.add_input(f32({4, 8}));
  Node* sum = graph.add("test.sum", {x}, {{"keepdim", true}});
  EXPECT_EQ(sum->as<ReduceAttrs>().axis, -1);
  EXPECT_TRUE(sum->as<ReduceAttrs>().keepdim);
  EXPECT_EQ(graph.add(op("test.sum"), {x})->as<ReduceAttrs>().keepdim, false);
  auto every = graph
                   .add("test.every", {x},
                        {{"real", 2},
                         {"size", 3},
                         {"reals", std::vector<std::int64_t>{1, 2}},
                         {"sizes", std::vector<std::int64_t>{5}}})
                   ->as<EveryAttrs>();
  EXPECT_EQ(every.real, 2.0);
  EXPECT_EQ(every.size, Dim(3));
  EXPECT_EQ(every.reals, (std::vector<double>{1, 2}));
  EXPECT_EQ(every.sizes, (std::vector<Dim>{5}));
}

TEST_F(GraphTest, add_refuses_misuse_where_it_happens) {
  Graph graph, other("other");
  Value* x = graph.add_input(f32({4}));
  Value* foreign = other.add_input(f32({4}));
  auto message = [&](auto&&... args) {
    std::size_t before = graph.num_nodes();
    std::string text = user_error([&] { graph.add(args...); }, ErrorCode::invalid_argument);
    EXPECT_EQ(graph.num_nodes(), before);
    return text;
  };
  using Attrs = std::vector<std::pair<std::string, AttrValue>>;
  using Values = std::vector<Value*>;
  expect_contains(message("test.add", Values{x}), "expected 2 inputs as test.add(a, b), got 1");
  expect_contains(message("test.neg", Values{x, x}), "expected 1 input as test.neg(x), got 2");
  expect_contains(message("test.neg", Values{nullptr}), "input 0 ('x') is not optional");
  expect_contains(message("test.cat", Values{x, nullptr}), "input 1 ('xs') is not optional");
  expect_contains(message("test.if", Values{}), "test.if(condition, operands...)");
  expect_contains(message("test.neg", Values{foreign}), "belongs to graph 'other'");
  expect_contains(message("test.sum", Values{x}, Attrs{{"axes", std::int64_t{1}}}),
                  "no attribute 'axes'; did you mean 'axis'?");
  expect_contains(message("test.sum", Values{x}, Attrs{{"axis", std::string("1")}}),
                  "attribute 'axis' is expected to be a int, got the string \"1\"");
  expect_contains(message(op("test.sum"), Values{x}, AttrList{std::int64_t{1}}),
                  "expected 2 attributes");
  expect_contains(message(op("test.sum"), Values{x}, AttrList{1.0, false}), "got a float");
}

TEST_F(GraphTest, shape_errors_name_both_shapes_and_the_place) {
  Graph graph;
  Value* x = graph.add_input(f32({4, 3}));
  Value* y = graph.add_input(f32({4, 5}));
  graph.set_location("model.py:12");
  std::string message =
      user_error([&] { graph.add("test.add", {x, y}); }, ErrorCode::shape_mismatch);
  expect_contains(message, "[4, 3] and [4, 5]");
  expect_contains(message, "(at model.py:12)");
}

TEST_F(GraphTest, new_nodes_take_the_current_location) {
  Graph graph;
  Value* x = graph.add_input(f32({4}));
  graph.set_location("a.py:1");
  EXPECT_EQ(graph.add("test.neg", {x})->location(), "a.py:1");
}

TEST_F(GraphTest, inserts_before_a_node_for_a_scope) {
  auto graph = chain();
  Value* x = graph->inputs()[0].get();
  {
    InsertBefore here(*graph, graph->last());
    graph->add("test.cat", {x});
    graph->add("test.clamp", {x});
  }
  graph->add("test.drop", {x});
  EXPECT_EQ(op_names(*graph), (std::vector<std::string>{"test.neg", "test.add", "test.cat",
                                                        "test.clamp", "test.neg", "test.drop"}));
  verify(*graph);
}

TEST_F(GraphTest, replaces_all_uses_including_outputs) {
  auto graph = chain();
  Value* x = graph->inputs()[0].get();
  graph->add_output(graph->last()->output());
  graph->replace_all_uses(graph->last()->output(), x);
  EXPECT_EQ(graph->outputs(), (std::vector<Value*>{x, x}));
  EXPECT_EQ(x->uses().size(), 3u);
  EXPECT_TRUE(graph->last()->output()->uses().empty());
  verify(*graph);
}

TEST_F(GraphTest, sets_inputs_and_outputs) {
  auto graph = chain();
  Value* x = graph->inputs()[0].get();
  Value* y = graph->inputs()[1].get();
  Node* add = graph->first()->next();
  graph->set_input(add, 0, y);
  EXPECT_EQ(y->uses().size(), 2u);
  EXPECT_TRUE(graph->first()->output()->uses().empty());
  graph->set_output(0, add->output());
  graph->add_output(x);
  graph->set_outputs({y, x, y});
  EXPECT_EQ(y->uses().size(), 4u);
  verify(*graph);
  Node* clamp = graph->add("test.clamp", {x, y});
  graph->set_input(clamp, 1, nullptr);
  EXPECT_FALSE(clamp->has_input(1));
  EXPECT_EQ(y->uses().size(), 4u);
  verify(*graph);
}

TEST_F(GraphTest, erases_nodes_without_uses_only) {
  auto graph = chain();
  EXPECT_THROW(graph->erase(graph->first()), InternalError);
  graph->set_outputs({});
  while (graph->last()) graph->erase(graph->last());
  EXPECT_EQ(graph->num_nodes(), 0u);
  EXPECT_TRUE(graph->inputs()[0]->uses().empty());
  verify(*graph);
}

TEST_F(GraphTest, erasing_the_current_node_while_iterating_is_allowed) {
  auto graph = chain();
  graph->set_outputs({});
  graph->set_input(graph->last(), 0, graph->inputs()[0].get());
  int seen = 0;
  for (Node& node : graph->nodes()) {
    ++seen;
    if (node.output()->uses().empty()) graph->erase(&node);
  }
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(op_names(*graph), (std::vector<std::string>{"test.neg"}));
}

TEST_F(GraphTest, erasing_the_insertion_point_moves_it_on) {
  auto graph = chain();
  graph->set_outputs({});
  graph->insert_before(graph->last());
  graph->erase(graph->last());
  EXPECT_EQ(graph->insertion_point(), nullptr);
  graph->add("test.drop", {graph->inputs()[0].get()});
  EXPECT_EQ(graph->last()->op().name, "test.drop");
}

TEST_F(GraphTest, erases_inputs_and_renumbers_ties) {
  auto graph = parse_graph(
      "graph g(%x: f32[4], %unused: f32[4], %c: f32[4]) -> (f32[4]) ties(0 -> 2) {\n"
      "  %0 = test.add(%x, %c) : f32[4]\n  return %0\n}");
  EXPECT_THROW(graph->erase_input(0), InternalError);
  graph->erase_input(1);
  EXPECT_EQ(graph->inputs()[1]->name(), "c");
  EXPECT_EQ(graph->inputs()[1]->index(), 1);
  EXPECT_EQ(graph->ties(), (std::vector<Tie>{{0, 1}}));
  verify(*graph);
  graph->set_input(graph->first(), 1, graph->inputs()[0].get());
  EXPECT_THROW(graph->erase_input(1), InternalError);  // tied
}

TEST_F(GraphTest, reorders_inputs_and_ties_follow) {
  auto graph = parse_graph(
      "graph g(%x: f32[8], %y: f32[8], %z: i64[]) -> (f32[8]) ties(0 -> 1) {\n"
      "  %a = test.add(%x, %y) : f32[8]\n  return %a\n}");
  graph->reorder_inputs(std::vector<int>{2, 1, 0});
  EXPECT_NE(print(*graph).find("(%z: i64[], %y: f32[8], %x: f32[8])"), std::string::npos);
  EXPECT_EQ(graph->ties(), (std::vector<Tie>{{0, 1}}));
  graph->reorder_inputs(std::vector<int>{1, 2, 0});
  EXPECT_EQ(graph->ties(), (std::vector<Tie>{{0, 0}}));
  EXPECT_EQ(graph->inputs()[1]->name(), "x");
  EXPECT_EQ(graph->inputs()[1]->index(), 1);
  verify(*graph);
}

TEST_F(GraphTest, moves_nodes) {
  auto graph = chain();
  Node* extra = graph->add("test.drop", {graph->inputs()[0].get()});
  graph->move_before(extra, graph->first());
  EXPECT_EQ(graph->first(), extra);
  graph->move_before(extra, nullptr);
  EXPECT_EQ(graph->last(), extra);
  EXPECT_EQ(graph->num_nodes(), 4u);
  verify(*graph);
}

TEST_F(GraphTest, clone_copies_everything_and_shares_nothing) {
  auto graph = parse_graph(
      "graph g(%c: bool[], %x: f32[8]{2}) -> (f32[8]{2}) ties(0 -> 1) {\n"
      "  %y = test.if(%c, %x) regions(\n"
      "    graph then(%a: f32[8]) -> (f32[8]) {\n"
      "      %n = test.neg(%a) : f32[8]\n      return %n\n    },\n"
      "    graph else(%a: f32[8]) -> (f32[8]) {\n      return %a\n    }) : f32[8]\n"
      "  %z = test.neg(%y) : f32[8]{2}  @ \"model.py:9\"\n  return %z\n}\n");
  auto copy = graph->clone();
  std::string text = print(*graph);
  EXPECT_EQ(print(*copy), text);
  verify(*copy);
  copy->first()->subgraphs()[0]->set_outputs({copy->first()->subgraphs()[0]->inputs()[0].get()});
  copy->set_outputs({copy->inputs()[1].get()});
  copy->erase(copy->last());
  EXPECT_EQ(print(*graph), text);
  graph.reset();
  verify(*copy);
}

TEST_F(GraphTest, clones_one_node_with_new_inputs) {
  auto graph = parse_graph(
      "graph g(%x: f32[8], %y: f32[3]) -> (f32[]) {\n"
      "  %s = test.sum(%x) {axis = 0} : f32[] @ \"here\"\n  return %s\n}");
  Node* copy = graph->clone_node(*graph->first(), {graph->inputs()[1].get()});
  EXPECT_EQ(copy->as<ReduceAttrs>().axis, 0);
  EXPECT_EQ(copy->location(), "here");
  EXPECT_EQ(copy->input(0), graph->inputs()[1].get());
  verify(*graph);
}

TEST_F(GraphTest, inlines_a_graph_and_infers_types_anew) {
  auto callee = parse_graph(
      "symbols s0\ngraph f(%a: f32[s0], %b: f32[s0]) -> (f32[s0], f32[s0]) {\n"
      "  %n = test.neg(%a) : f32[s0]\n  %m = test.add(%n, %b) : f32[s0]\n  return %m, %b\n}");
  Graph graph;
  Value* x = graph.add_input(f32({4}), "x");
  std::vector<Value*> arguments{x, x};
  std::vector<Value*> results = graph.inline_graph(*callee, arguments);
  graph.set_outputs(results);
  EXPECT_EQ(print(graph),
            "graph main(%x: f32[4]) -> (f32[4], f32[4]) {\n"
            "  %n = test.neg(%x) : f32[4]\n  %m = test.add(%n, %x) : f32[4]\n  return %m, %x\n}\n");
  expect_contains(user_error([&] { graph.inline_graph(*callee, std::vector<Value*>{x}); },
                             ErrorCode::invalid_argument),
                  "takes 2 inputs, got 1");
}

TEST_F(GraphTest, outputs_keep_their_layout_through_replacement) {
  Graph graph;
  Type strided = f32({4, 8});
  strided.strides = {1, 4};
  Value* x = graph.add_input(f32({4, 8}), "x");
  Value* a = graph.add("test.neg", {x})->output();
  Value* b = graph.add("test.neg", {x})->output();
  a->set_type(strided);
  EXPECT_TRUE(graph.can_replace(a, x));  // only read inside: any layout will do
  graph.set_outputs({a});
  EXPECT_FALSE(graph.can_replace(a, x));  // an input has the caller's layout
  EXPECT_TRUE(graph.can_replace(a, b));
  graph.add_output(b);
  EXPECT_FALSE(graph.can_replace(a, b));  // now promised dense
  EXPECT_FALSE(graph.can_replace(b, a));
  graph.set_outputs({a});
  graph.replace_all_uses(a, b);
  EXPECT_EQ(b->type(), strided);
  Value* c = graph.add_input(f32({4, 9}));
  EXPECT_FALSE(graph.can_replace(b, c));
}

TEST_F(GraphTest, attributes_are_found_by_name) {
  auto graph = parse_graph(
      "graph g(%x: f32[8]) -> (f32[]) {\n  %0 = test.sum(%x) {axis = 0} : f32[]\n  return %0\n}");
  EXPECT_EQ(std::get<std::int64_t>(graph->first()->attr("axis")), 0);
  std::string message = user_error([&] { graph->first()->attr("keep"); }, ErrorCode::not_found);
  expect_contains(message, "axis, keepdim");
}

TEST_F(GraphTest, lists_symbols_in_order_of_appearance) {
  Dim a = Dim::symbol("a"), b = Dim::symbol("b"), u = Dim::symbol("u");
  Graph graph;
  Value* x = graph.add_input(f32({b * 2 + a, b}));
  graph.add(op("test.topk"), {x}, TopkAttrs{u});
  EXPECT_EQ(symbols_of(graph).size(), 2u);
  EXPECT_EQ(symbols_told_by_inputs(graph), std::vector<Dim>{b});
  std::vector<Dim> all = all_symbols_of(graph);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2], u);
}

}  // namespace
}  // namespace gex::test
