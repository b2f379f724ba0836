// Random edits keep a graph valid: use lists, order, copies and texts stay consistent.
#include <random>

#include "ir/matcher.hpp"
#include "test_ops.hpp"

namespace gex::test {
namespace {

using RandomEdits = IrTest;

class Editor {
 public:
  explicit Editor(unsigned seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) graph_.add_input(f32({4}));
    graph_.set_outputs({pick_before(nullptr)});
  }

  Graph& graph() { return graph_; }

  void edit() {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        return add_node();
      case 3:
        if (Node* node = pick_node())
          graph_.set_input(node, static_cast<int>(random_() % node->inputs().size()),
                           pick_before(node));
        return;
      case 4:
        if (Node* node = pick_node()) graph_.replace_all_uses(node->output(), pick_before(node));
        return;
      case 5:
        return erase_unused();
      case 6:
        return graph_.add_output(pick_before(nullptr));
      default:
        if (!graph_.outputs().empty())
          graph_.set_output(static_cast<int>(random_() % graph_.outputs().size()),
                            pick_before(nullptr));
    }
  }

 private:
  void add_node() {
    Node* place = pick_node();
    InsertBefore here(graph_, place);
    if (random_() % 2)
      graph_.add("test.neg", {pick_before(place)});
    else
      graph_.add("test.add", {pick_before(place), pick_before(place)});
  }

  void erase_unused() {
    for (Node& node : graph_.nodes())
      if (node.output()->uses().empty() && random_() % 2) graph_.erase(&node);
  }

  Node* pick_node() {
    if (graph_.num_nodes() == 0) return nullptr;
    Node* node = graph_.first();
    for (std::size_t skip = random_() % graph_.num_nodes(); skip > 0; --skip) node = node->next();
    return node;
  }

  // A value that is defined before `place` (null: the end).
  Value* pick_before(const Node* place) {
    std::vector<Value*> values;
    for (const auto& input : graph_.inputs()) values.push_back(input.get());
    for (Node& node : graph_.nodes()) {
      if (&node == place) break;
      values.push_back(node.output());
    }
    return values[random_() % values.size()];
  }

  std::mt19937 random_;
  Graph graph_{"edited"};
};

TEST_F(RandomEdits, keep_the_graph_valid) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Editor editor(seed);
    for (int step = 0; step < 120; ++step) {
      editor.edit();
      ASSERT_NO_THROW(verify(editor.graph())) << "seed " << seed << ", step " << step;
    }
    expect_round_trip(editor.graph());
    auto copy = editor.graph().clone();
    verify(*copy);
    EXPECT_TRUE(structurally_equal(editor.graph(), *copy));
  }
}

TEST_F(RandomEdits, rewrites_keep_it_valid_and_terminate) {
  Pattern double_negation = Pattern::from(
      parse_graph("graph p(%x: f32[4]) -> (f32[4]) {\n"
                  "  %a = test.neg(%x) : f32[4]\n  %b = test.neg(%a) : f32[4]\n  return %b\n}"));
  Pattern negated_sum =
      Pattern::from(parse_graph("graph p(%x: f32[4], %y: f32[4]) -> (f32[4]) {\n"
                                "  %a = test.neg(%x) : f32[4]\n  %s = test.add(%y, %a) : f32[4]\n"
                                "  return %s\n}"));
  // Two roots over one value: exercises the search for a common place.
  Pattern two_sums = Pattern::from(
      parse_graph("graph p(%x: f32[4], %y: f32[4], %z: f32[4]) -> (f32[4], f32[4]) {\n"
                  "  %a = test.add(%x, %y) : f32[4]\n  %b = test.add(%x, %z) : f32[4]\n"
                  "  return %a, %b\n}"));
  int count = 0;
  for (unsigned seed = 100; seed < 160; ++seed) {
    Editor editor(seed);
    for (int step = 0; step < 200; ++step) editor.edit();
    Graph& graph = editor.graph();
    bool changed = true;
    for (int round = 0; changed; ++round) {
      ASSERT_LT(round, 300);
      Hash before = structural_hash(graph);
      changed = apply_rewrite(
          graph, double_negation, {},
          [](Graph&, const Match& m) { return std::vector<Value*>{m.inputs[0]}; }, &count);
      changed |= apply_rewrite(
          graph, negated_sum, {},
          [](Graph& g, const Match& m) {
            return std::vector<Value*>{g.add("test.sub", {m.inputs[1], m.inputs[0]})->output()};
          },
          &count);
      changed |= apply_rewrite(
          graph, two_sums, {},
          [](Graph& g, const Match& m) {
            Value* x = m.inputs[0];
            return std::vector<Value*>{g.add("test.mul", {x, m.inputs[1]})->output(),
                                       g.add("test.mul", {x, m.inputs[2]})->output()};
          },
          &count);
      ASSERT_NO_THROW(verify(graph)) << "seed " << seed << "\n" << print(graph);
      EXPECT_EQ(changed, structural_hash(graph) != before) << "seed " << seed;
    }
  }
  EXPECT_GT(count, 100);
}

}  // namespace
}  // namespace gex::test
