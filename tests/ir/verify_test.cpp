// What the verifier rejects, and that its message says where and why.
#include "test_ops.hpp"

namespace gex::test {
namespace {

using Verify = IrTest;

std::string problem_of(const Graph& graph) {
  return user_error([&] { verify(graph); }, ErrorCode::invalid_graph);
}

std::unique_ptr<Graph> sound() {
  auto graph = parse_graph(
      "graph g(%x: f32[8], %y: f32[8]) -> (f32[8]) {\n"
      "  %a = test.neg(%x) : f32[8]\n  %b = test.add(%a, %y) : f32[8]  @ \"model.py:2\"\n"
      "  return %b\n}");
  verify(*graph);
  return graph;
}

// The lists are private to the graph; this test corrupts them.
template <class T>
T& breakable(const T& part) {
  return const_cast<T&>(part);
}

TEST_F(Verify, use_before_definition) {
  auto graph = sound();
  graph->move_before(graph->last(), graph->first());
  std::string message = problem_of(*graph);
  expect_contains(message, "graph 'g', node `%b = test.add(%a, %y) : f32[8]` (at model.py:2)");
  expect_contains(message, "expected input 0 to be defined earlier, found its producer test.neg");
}

TEST_F(Verify, types_that_differ_from_the_shape_rule) {
  auto graph = sound();
  graph->first()->output()->set_type(f32({9}));
  expect_contains(problem_of(*graph),
                  "node `%a = test.neg(%x) : f32[9]`: expected output 0 of type f32[8] by the "
                  "shape rule, found f32[9]");
  graph = sound();
  graph->inputs()[1]->set_type(f32({7}));
  expect_contains(problem_of(*graph),
                  "expected inputs that the shape rule accepts, found test.add");
}

TEST_F(Verify, strides_are_not_checked_against_the_shape_rule) {
  auto graph = sound();
  Type strided = f32({8});
  strided.strides = {2};
  graph->first()->output()->set_type(strided);
  verify(*graph);
  strided.strides = {2, 1};
  graph->first()->output()->set_type(strided);
  expect_contains(problem_of(*graph), "2 strides for 1 sizes");
}

TEST_F(Verify, absent_inputs_that_are_not_optional) {
  auto graph = sound();
  graph->set_input(graph->first(), 0, nullptr);
  expect_contains(problem_of(*graph), "node `%a = test.neg(none) : f32[8]`");
}

TEST_F(Verify, attributes_of_another_kind_or_number) {
  auto graph =
      parse_graph("graph g(%x: f32[8]) -> (f32[]) {\n  %0 = test.sum(%x) : f32[]\n  return %0\n}");
  breakable(graph->first()->attrs())[0] = 1.5;
  expect_contains(problem_of(*graph), "attribute 'axis' is expected to be a int, got a float");
  breakable(graph->first()->attrs()).pop_back();
  expect_contains(problem_of(*graph), "expected 2 attributes");
}

TEST_F(Verify, inconsistent_use_lists) {
  auto graph = sound();
  Node* first = graph->first();
  std::vector<Use>& uses = breakable(first->output()->uses());
  std::vector<Use> right = uses;
  uses.push_back({graph->last(), 1});
  expect_contains(problem_of(*graph), "node `%a = test.neg(%x) : f32[8]`: expected use lists that");
  expect_contains(problem_of(*graph), "a use at the position of another value");
  uses = {right[0], right[0]};
  expect_contains(problem_of(*graph), "a use listed twice");
  uses = {{graph->last(), 5}};
  expect_contains(problem_of(*graph), "index out of range");
  auto other = sound();
  uses = {{other->last(), 0}};
  expect_contains(problem_of(*graph), "a node that is not in the graph");
  uses = {};
  expect_contains(problem_of(*graph), "expected 4 uses, found 3 listed");
  uses = right;
  verify(*graph);
}

TEST_F(Verify, tokens_used_twice) {
  auto graph = parse_graph(
      "graph g(%x: f32[8]) -> (token) {\n"
      "  %0 = test.start() : token\n  %1 = test.log(%0, %x) : token\n"
      "  %2 = test.log(%1, %x) : token\n  return %2\n}");
  verify(*graph);
  graph->set_input(graph->last(), 0, graph->first()->output());
  expect_contains(problem_of(*graph),
                  "node `%0 = test.start() : token`: expected a token to be used at most once, "
                  "found 2 uses");
  graph = parse_graph(
      "graph g(%t: token, %x: f32[8]) -> (token, token) {\n"
      "  %1 = test.log(%t, %x) : token\n  return %t, %1\n}");
  expect_contains(problem_of(*graph), "input 0: expected a token to be used at most once");
}

TEST_F(Verify, ties) {
  struct Case {
    std::vector<Tie> ties;
    const char* message;
  };
  for (const auto& [ties, message] :
       {Case{{{1, 0}}, "tie of output 1, but there are 1 outputs"},
        Case{{{0, 2}}, "tie to input 2, but there are 2 inputs"},
        Case{{{0, -1}}, "tie to input -1"}, Case{{{0, 0}, {0, 1}}, "output 0 tied twice"}}) {
    auto graph = sound();
    graph->ties() = ties;
    expect_contains(problem_of(*graph), message);
  }
  auto graph = sound();
  graph->add_output(graph->outputs()[0]);
  graph->ties() = {{0, 1}, {1, 1}};
  expect_contains(problem_of(*graph), "input 1 tied twice");
  graph->ties() = {{0, 1}};
  verify(*graph);
  graph = parse_graph("graph g(%x: f32[8], %y: f32[9]) -> (f32[9]) {\n  return %y\n}");
  graph->ties() = {{0, 0}};
  expect_contains(problem_of(*graph), "of type f32[9] to input 0 of a different type f32[8]");
}

TEST_F(Verify, invalid_sizes) {
  Graph negative;
  negative.add_input(f32({-1}));
  expect_contains(problem_of(negative), "input 0: expected a valid type, found f32[-1]: the size");
  Graph loop_index;
  loop_index.add_input(f32({Dim::index("i", 8)}));
  expect_contains(problem_of(loop_index), "is a loop index");
  Graph two_ranges;
  two_ranges.add_input(f32({Dim::symbol("s0", {2, 8})}));
  two_ranges.add_input(f32({Dim::symbol("s0", {2, 9})}));
  expect_contains(problem_of(two_ranges), "s0 appears with two different ranges");
}

TEST_F(Verify, subgraphs) {
  auto graph = parse_graph(
      "graph g(%c: bool[], %x: f32[8]) -> (f32[8]) {\n"
      "  %y = test.if(%c, %x) regions(graph yes(%a: f32[8]) -> (f32[8]) {\n"
      "    %n = test.neg(%a) : f32[8] return %n }, graph no(%a: f32[8]) -> (f32[8]) {\n"
      "    return %a }) : f32[8]\n  return %y\n}");
  verify(*graph);
  graph->first()->subgraphs()[0]->first()->output()->set_type(f32({9}));
  std::string message = problem_of(*graph);
  expect_contains(message, "node `%y = test.if(%c, %x) regions(...) : f32[8]`");
  expect_contains(message, "graph 'yes', node `%n = test.neg(%a) : f32[9]`");
}

TEST_F(Verify, symbols_in_subgraphs_and_attributes_are_the_same_ones) {
  Graph graph;
  Value* x = graph.add_input(f32({Dim::symbol("s0", {2, 8})}));
  graph.add(op("test.topk"), {x}, TopkAttrs{Dim::symbol("s0", {2, 9})});
  expect_contains(problem_of(graph), "s0 appears with two different ranges");
  Graph outer;
  Value* c = outer.add_input(Type::tensor(DType::boolean, {}));
  Value* y = outer.add_input(f32({Dim::symbol("s0", {2, 8})}));
  std::vector<std::unique_ptr<Graph>> branches;
  for (int i = 0; i < 2; ++i) {
    auto& branch = branches.emplace_back(std::make_unique<Graph>());
    branch->set_outputs({branch->add_input(f32({Dim::symbol("s0", {2, 9 - i})}))});
  }
  outer.add(op("test.if"), {c, y}, AttrList{}, std::move(branches));
  expect_contains(problem_of(outer), "s0 appears with two different ranges");
}

}  // namespace
}  // namespace gex::test
