// Random graphs over all ops, at every level, against the interpreter. GEX_FUZZ_SEEDS=n runs more,
// from GEX_FUZZ_FIRST on; `gex fuzz --seconds=N` does the same for hours.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "check/fuzz.hpp"
#include "check/generate.hpp"
#include "check/generate_mutations.hpp"
#include "check/generate_training.hpp"
#include "tests/ops/samples.hpp"

namespace gex::check {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(GraphFuzz, every_level_agrees_with_the_interpreter) {
  const std::uint64_t first = number_from("GEX_FUZZ_FIRST", 0);
  const std::uint64_t count = number_from("GEX_FUZZ_SEEDS", 60);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const auto failure = fuzz_one(seed);
    if (!failure) continue;
    FAIL() << "seed " << seed << " (" << failure->where << "): " << failure->fault << "\n"
           << reduced_failure(seed, *failure);
  }
}

TEST(GraphFuzz, the_same_seed_gives_the_same_graph) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(print(*random_graph(seed)), print(*random_graph(seed)));
}

// GEX_FUZZ_MUTATIONS=n runs more.
TEST(GraphFuzz, inputs_are_read_before_they_are_overwritten) {
  const std::uint64_t count = number_from("GEX_FUZZ_MUTATIONS", 1000);
  int copied = 0, in_place = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const auto graph = random_mutations(seed, static_cast<int>(2 + seed % 11));
    for (const Tie& tie : graph->ties()) {
      const bool is_input = graph->outputs()[static_cast<std::size_t>(tie.output)]->is_input();
      ++(is_input ? copied : in_place);
    }
    const auto inputs = draw_inputs(*graph, sizes_of(*graph), seed);
    const Reference reference(*graph, inputs);
    for (const bool fuse : {true, false}) {
      const Trial trial{static_cast<int>(seed % 4), fuse, false, {}};
      const auto fault = reference.find_fault(trial);
      ASSERT_FALSE(fault) << "seed " << seed << " (" << trial.text() << "): " << *fault << "\n"
                          << print(*graph);
    }
  }
  EXPECT_GT(copied, 100);
  EXPECT_GT(in_place, 100);
}

TEST(GraphFuzz, training_steps_write_parameters_and_are_the_same_for_a_seed) {
  int symbolic = 0, tied = 0, products = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto graph = random_training_step(seed, 6);
    EXPECT_EQ(print(*graph), print(*random_training_step(seed, 6)));
    symbolic += symbols_of(*graph).empty() ? 0 : 1;
    tied += graph->ties().empty() ? 0 : 1;
    for (Node& node : graph->nodes()) products += node.is("matmul") ? 1 : 0;
  }
  EXPECT_GT(symbolic, 10);
  EXPECT_GT(tied, 10);
  EXPECT_GT(products, 40);
}

TEST(GraphFuzz, texts_of_random_graphs_parse_back) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto graph = random_graph(seed);
    const std::string text = print(*graph);
    const auto copy = parse_graph(text);
    ASSERT_TRUE(structurally_equal(*graph, *copy)) << text;
    ASSERT_EQ(print(*copy), text);
  }
}

TEST(GraphFuzz, uses_every_op_with_a_sample) {
  std::map<std::string, int> seen;
  int symbolic = 0, tied = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const auto graph = random_graph(seed);
    for (Node& node : graph->nodes()) ++seen[node.op().name];
    symbolic += symbols_of(*graph).empty() ? 0 : 1;
    tied += graph->ties().empty() ? 0 : 1;
  }
  for (const OpDef* op : all_ops()) {
    if (test::sample_of(*op) == nullptr) continue;
    EXPECT_GT(seen[op->name], 0) << op->name;
  }
  EXPECT_GT(seen["if"], 0);
  EXPECT_GT(seen["while"], 0);
  EXPECT_GT(symbolic, 200);
  EXPECT_GT(tied, 20);
}

}  // namespace
}  // namespace gex::check
