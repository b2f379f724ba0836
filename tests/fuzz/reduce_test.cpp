// Reduction: the result is small, valid, and still has the property.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.hpp"
#include "check/child.hpp"
#include "check/generate.hpp"
#include "check/reduce.hpp"
#include "check/trial.hpp"

namespace gex::check {
namespace {

int count(const Graph& graph, const char* op) {
  int found = 0;
  for (Node& node : graph.nodes()) found += node.is(op) ? 1 : 0;
  return found;
}

TEST(Reduce, keeps_only_the_failing_node) {
  const auto graph = parse_graph(R"(symbols s0 in [2, 64]
graph g(%x: f32[s0, 128], %w: f32[128, 64], %b: f32[64]) -> (f32[s0, 64], f32[s0, 128]) ties(1 -> 0) {
  %a = relu(%x) : f32[s0, 128]
  %m = matmul(%a, %w) : f32[s0, 64]
  %y = add(%m, %b) : f32[s0, 64]
  %e = exp(%y) : f32[s0, 64]
  %z = tanh(%e) : f32[s0, 64]
  %u = neg(%x) : f32[s0, 128]
  return %z, %u
})");
  const auto small =
      reduce(*graph, [](const Graph& candidate) { return count(candidate, "exp") > 0; });
  EXPECT_EQ(small->num_nodes(), 1u) << print(*small);
  EXPECT_EQ(small->outputs().size(), 1u);
  EXPECT_EQ(small->inputs().size(), 1u);
  EXPECT_TRUE(small->ties().empty());
  EXPECT_TRUE(symbols_of(*small).empty());
  EXPECT_EQ(small->inputs()[0]->type().text(), "f32[1, 1]");
}

TEST(Reduce, keeps_nodes_that_only_fail_together) {
  const auto graph = parse_graph(R"(
graph g(%x: f32[8]) -> (f32[8]) {
  %a = relu(%x) : f32[8]
  %b = exp(%a) : f32[8]
  %c = neg(%b) : f32[8]
  %d = tanh(%c) : f32[8]
  %e = abs(%d) : f32[8]
  return %e
})");
  const auto small = reduce(*graph, [](const Graph& candidate) {
    return count(candidate, "exp") > 0 && count(candidate, "tanh") > 0;
  });
  EXPECT_EQ(small->num_nodes(), 2u) << print(*small);
}

TEST(Reduce, replaces_an_if_by_a_branch) {
  const auto graph = parse_graph(R"(
graph g(%c: bool[], %x: f32[4]) -> (f32[4]) {
  %y = if(%c, %x) regions(
    graph then(%a: f32[4]) -> (f32[4]) {
      %0 = exp(%a) : f32[4]
      return %0
    },
    graph else(%a: f32[4]) -> (f32[4]) {
      return %a
    }) : f32[4]
  return %y
})");
  const auto small = reduce(*graph, [](const Graph& candidate) {
    return print(candidate).find("exp(") != std::string::npos;
  });
  EXPECT_EQ(count(*small, "if"), 0) << print(*small);
  EXPECT_EQ(count(*small, "exp"), 1);
}

// 2*s0 alone does not determine s0: what is cut off leaves a graph that runs.
TEST(Reduce, keeps_an_input_that_defines_each_size) {
  const auto graph = parse_graph(R"(symbols s0 in [2, 64]
graph g(%x: f32[s0, 8]) -> (f32[2*s0, 8]) {
  %a = relu(%x) : f32[s0, 8]
  %b = cat(%a, %a) {axis = 0} : f32[2*s0, 8]
  %c = exp(%b) : f32[2*s0, 8]
  %d = neg(%c) : f32[2*s0, 8]
  return %d
})");
  const auto small = reduce(*graph, [](const Graph& candidate) {
    return count(candidate, "exp") > 0 && !all_symbols_of(candidate).empty();
  });
  EXPECT_EQ(symbols_told_by_inputs(*small), all_symbols_of(*small)) << print(*small);
  EXPECT_EQ(small->num_nodes(), 2u) << print(*small);
  EXPECT_EQ(find_fault(*small, draw_inputs(*small, sizes_of(*small), 1), {}), std::nullopt);
}

// A data-dependent count is defined by the node that counts.
TEST(Reduce, sizes_that_the_graph_counts_itself_may_stay) {
  const auto graph = parse_graph(R"(symbols u0 in [0, 64]
graph g(%cut: i64[]) -> (f32[u0 + 1]) {
  %k = bind(%cut) {symbol = u0} : i64[]
  %f = full() {dtype = f32, value = 1.0, shape = [u0 + 1]} : f32[u0 + 1]
  %e = exp(%f) : f32[u0 + 1]
  %y = neg(%e) : f32[u0 + 1]
  return %y
})");
  const auto small = reduce(*graph, [](const Graph& candidate) {
    for (Node& node : candidate.nodes())
      if (node.is("exp") && !node.output()->type().numel().is_const()) return true;
    return false;
  });
  EXPECT_EQ(small->num_nodes(), 3u) << print(*small);
  EXPECT_EQ(find_fault(*small, draw_inputs(*small, sizes_of(*small), 1), {}), std::nullopt);
}

TEST(Reduce, tests_only_valid_graphs_and_stops_at_the_limit) {
  const auto graph = random_graph(3, {40});
  int asked = 0;
  ReduceOptions options;
  options.most_tests = 25;
  reduce(
      *graph,
      [&](const Graph& candidate) {
        ++asked;
        verify(candidate);
        EXPECT_TRUE(structurally_equal(candidate, *parse_graph(print(candidate))));
        return false;
      },
      options);
  EXPECT_EQ(asked, 25);
}

TEST(Child, a_crash_is_reported_and_earlier_output_is_kept) {
  const ChildResult crashed = in_child(
      [](std::ostream& out) {
        out << "before" << std::flush;
        std::abort();
      },
      20);
  EXPECT_FALSE(crashed.finished());
  EXPECT_EQ(crashed.text, "before");
  EXPECT_EQ(crashed.signal, SIGABRT);
  const ChildResult fine = in_child([](std::ostream& out) { out << "done"; }, 20);
  EXPECT_TRUE(fine.finished());
  EXPECT_EQ(fine.text, "done");
}

TEST(Child, a_hanging_child_is_killed) {
  const ChildResult hung = in_child([](std::ostream&) { pause(); }, 1);
  EXPECT_TRUE(hung.timed_out);
  EXPECT_EQ(hung.ending(), "timed out");
}

// A wrong result must be detected: everything here relies on the comparison.
TEST(Trial, detects_wrong_values_shapes_and_errors) {
  const auto graph = parse_graph(
      "graph g(%x: f32[3]) -> (f32[3]) {\n"
      "  %y = exp(%x) : f32[3]\n  return %y\n}");
  const auto inputs = draw_inputs(*graph, sizes_of(*graph), 1);
  EXPECT_EQ(find_fault(*graph, inputs, {}), std::nullopt);
  const Reference reference(*graph, inputs);
  EXPECT_EQ(reference.judge(0, HostTensor(DType::f32, {3})).value_or("").substr(0, 18),
            "output 0 at [0] is");
  EXPECT_NE(reference.judge(0, HostTensor(DType::f32, {2})), std::nullopt);
  EXPECT_NE(find_fault(*graph, inputs, {2, true, true, {"no_such_pass"}}), std::nullopt);
}

// Whether 1.0000001 rounds up does not matter.
TEST(Trial, results_sensitive_to_the_last_bit_are_not_checked) {
  const auto graph = parse_graph(
      "graph g(%x: f32[1]) -> (f32[1]) {\n"
      "  %y = floor(%x) : f32[1]\n  return %y\n}");
  std::vector<HostTensor> inputs{HostTensor(DType::f32, {1})};
  inputs[0].set(0, 2.0);
  const Reference reference(*graph, inputs);
  HostTensor below(DType::f32, {1}), far(DType::f32, {1});
  below.set(0, 1.0);
  far.set(0, 100.0);
  EXPECT_EQ(reference.judge(0, below), std::nullopt);
  EXPECT_NE(reference.judge(0, far), std::nullopt);
}

// Integers have no rounding, but values derived from them do: e^23 is known only to a few periods
// of the tangent.
TEST(Trial, results_sensitive_to_intermediate_rounding_are_not_checked) {
  const auto graph = parse_graph(
      "graph g(%x: i64[60]) -> (f32[60], f32[60]) {\n"
      "  %f = cast(%x) {dtype = f32} : f32[60]\n"
      "  %e = expm1(%f) : f32[60]\n"
      "  %t = tan(%e) : f32[60]\n"
      "  return %e, %t\n}");
  std::vector<HostTensor> inputs{HostTensor(DType::i64, {60})};
  for (int k = 0; k < 60; ++k) inputs[0].set_int(k, 20 + k);
  EXPECT_EQ(find_fault(*graph, inputs, {}), std::nullopt);
}

}  // namespace
}  // namespace gex::check
