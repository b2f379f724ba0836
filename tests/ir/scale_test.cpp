// 100,000 nodes are handled in seconds, also when one value has very many uses.
#include <chrono>

#include "test_ops.hpp"

namespace gex::test {
namespace {

using Scale = IrTest;
using Clock = std::chrono::steady_clock;

// Generous for slow and busy machines and sanitizers; anything quadratic takes minutes.
constexpr double kLimitSeconds = 20.0;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::unique_ptr<Graph> large_graph(int nodes) {
  auto graph = std::make_unique<Graph>("large");
  Dim s0 = Dim::symbol("s0", {2, 4096});
  Value* x = graph->add_input(f32({s0, 128}), "x");
  Value* last = x;
  for (int i = 0; i < nodes; ++i)
    last = i % 2 ? graph->add(op("test.add"), {last, x})->output()
                 : graph->add(op("test.neg"), {last})->output();
  graph->set_outputs({last});
  return graph;
}

TEST_F(Scale, builds_verifies_prints_and_parses_100000_nodes_in_seconds) {
  auto start = Clock::now();
  auto graph = large_graph(100000);
  double built = seconds_since(start);
  verify(*graph);
  double verified = seconds_since(start);
  std::string text = print(*graph);
  double printed = seconds_since(start);
  auto back = parse_graph(text);
  double parsed = seconds_since(start);
  EXPECT_EQ(structural_hash(*graph), structural_hash(*back));
  double hashed = seconds_since(start);
  EXPECT_EQ(back->num_nodes(), 100000u);
  EXPECT_EQ(back->inputs()[0]->uses().size(), 50001u);
  std::cout << "100,000 nodes: build " << built << " s, verify " << verified - built << " s, print "
            << printed - verified << " s, parse " << parsed - printed << " s, hash twice "
            << hashed - parsed << " s\n";
  EXPECT_LT(parsed, kLimitSeconds);
}

TEST_F(Scale, drops_50000_uses_of_one_value_in_any_order) {
  auto start = Clock::now();
  auto graph = large_graph(100000);
  Value* x = graph->inputs()[0].get();
  Value* y = graph->add_input(x->type(), "y");
  std::vector<Node*> users;
  for (const Use& use : x->uses()) users.push_back(use.node);
  ASSERT_GT(users.size(), 50000u);
  // First every second one from the front, then the others from the front: the worst orders for a
  // list that is searched.
  for (std::size_t parity : {0, 1})
    for (std::size_t i = parity; i < users.size(); i += 2)
      graph->set_input(users[i], users[i]->is("test.add") ? 1 : 0, y);
  EXPECT_TRUE(x->uses().empty());
  EXPECT_EQ(y->uses().size(), users.size());
  graph->replace_all_uses(y, x);
  verify(*graph);
  graph->set_outputs({x});
  while (graph->last() != nullptr) graph->erase(graph->last());
  EXPECT_EQ(x->uses().size(), 1u);
  EXPECT_LT(seconds_since(start), kLimitSeconds);
}

}  // namespace
}  // namespace gex::test
