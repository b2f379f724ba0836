// Conditions of shape rules that are checked at run time.
#include "ir/assume.hpp"

#include "test_ops.hpp"

namespace gex::test {
namespace {

using Relation = Assumption::Relation;

TEST(Assume, decided_relations_are_not_recorded) {
  const Dim n = Dim::symbol("n", {2, 8});
  AssumptionLog log;
  EXPECT_TRUE(assume_eq(n + 1, n + 1));
  EXPECT_FALSE(assume_eq(n, n + 1));
  EXPECT_TRUE(assume_le(1, n));
  EXPECT_FALSE(assume_le(n, 1));
  EXPECT_TRUE(log.taken().empty());
}

TEST(Assume, undecided_relations_are_recorded_once) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  AssumptionLog log;
  EXPECT_TRUE(assume_eq(n, m));
  EXPECT_TRUE(assume_eq(n, m));
  EXPECT_TRUE(assume_le(n, 4));
  ASSERT_EQ(log.taken().size(), 2u);
  EXPECT_EQ(log.taken()[0].relation, Relation::equal);
  EXPECT_EQ(log.taken()[1].relation, Relation::at_most);
  EXPECT_EQ(log.taken()[1].rhs, Dim(4));
}

TEST(Assume, without_a_log_nothing_is_recorded) {
  EXPECT_TRUE(assume_eq(Dim::symbol("n"), Dim::symbol("m")));
  AssumptionLog log;
  EXPECT_TRUE(log.taken().empty());
}

TEST(Assume, logs_nest) {
  const Dim n = Dim::symbol("n");
  AssumptionLog outer;
  {
    AssumptionLog inner;
    assume_eq(n, 3);
    EXPECT_EQ(inner.taken().size(), 1u);
  }
  EXPECT_TRUE(outer.taken().empty());
  assume_eq(n, 4);
  EXPECT_EQ(outer.taken().size(), 1u);
}

using AssumeInGraph = IrTest;

TEST_F(AssumeInGraph, verify_names_the_node_of_an_assumption) {
  const Dim n = Dim::symbol("n", {2, 64}), m = Dim::symbol("m", {2, 64});
  Graph graph;
  graph.set_outputs(
      {graph.add("test.add", {graph.add_input(f32({n})), graph.add_input(f32({m}))})->output()});
  AssumptionLog log;
  verify(graph);
  ASSERT_EQ(log.taken().size(), 1u);
  EXPECT_EQ(log.taken()[0].message, "test.add(f32[n], f32[m])");
}

TEST_F(AssumeInGraph, negative_and_uncountable_results_are_refused) {
  Graph graph;
  const std::int64_t huge = std::int64_t{1} << 40;
  Value* x = graph.add_input(f32({huge, 1}));
  Value* y = graph.add_input(f32({1, huge}));
  try {
    graph.add("test.add", {x, y});
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("in bytes overflows 64 bits"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace gex::test
