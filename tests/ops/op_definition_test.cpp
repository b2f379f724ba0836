// An OpDef states everything that the rest of the engine needs to know about the op.

#include <gtest/gtest.h>

#include "ir/op_def.hpp"
#include "ops/core/build.hpp"
#include "ops/core/problem_rule.hpp"
#include "ops/rows/aten.hpp"

namespace gex {
namespace {

TEST(OpDefinition, EveryOpCanBeComputed) {
  for (const OpDef* op : all_ops()) {
    const bool computed = op->body || op->expand;
    EXPECT_NE(computed, op->step != StepKind::none) << op->name;
    if (op->problem) {
      EXPECT_TRUE(computed) << op->name << " has a problem and no meaning";
      EXPECT_NE(op->problem->launch, nullptr) << op->name;
      const auto& prologues = op->problem->prologues;
      EXPECT_TRUE(!prologues || (prologues->operands && prologues->times_read)) << op->name;
    }
  }
}

TEST(OpDefinition, SortingIsAProblemButNotAContraction) {
  for (const char* name : {"sort", "topk"}) {
    EXPECT_TRUE(op(name).problem != nullptr) << name;
    EXPECT_FALSE(op(name).has(Trait::contraction)) << name;
    EXPECT_TRUE(op(name).reference != nullptr) << name;
  }
}

TEST(OpDefinition, ContractionsAreProblems) {
  for (const OpDef* op : all_ops()) {
    if (op->has(Trait::contraction)) {
      EXPECT_TRUE(op->problem != nullptr) << op->name;
    }
  }
}

TEST(OpDefinition, IndexInputsAreInputsAndAxes) {
  Graph g;
  Value* x = g.add_input(Type::tensor(DType::f32, {Dim(4), Dim(5)}));
  Value* places = g.add_input(Type::tensor(DType::i64, {Dim(4), Dim(2)}));
  Value* picked = ops::take_along(g, x, places, 1);
  const Node& node = *picked->producer();
  const std::vector<IndexInput> inputs = node.op().indices(node);
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].input, 1u);
  EXPECT_EQ(inputs[0].axis, 1);
}

TEST(OpDefinition, BoundsOfElements) {
  Graph g;
  const Dim n = Dim::symbol("n", {1, 9});
  const Node& iota = *ops::iota(g, n)->producer();
  EXPECT_EQ(iota.op().bounds(iota)->high, n - Dim(1));
  const std::vector<std::int64_t> numbers{7, -3, 4};
  const Node& constant = *ops::constant(g, HostTensor::of_i64({3}, numbers))->producer();
  EXPECT_EQ(constant.op().bounds(constant)->low, Dim(-3));
  EXPECT_EQ(constant.op().bounds(constant)->high, Dim(7));
}

TEST(OpDefinition, OpsOnSizes) {
  const Dim n = Dim::symbol("n", {1, 9});
  EXPECT_EQ(op("add").on_sizes(n, Dim(2)), n + Dim(2));
  EXPECT_EQ(op("floor_div").on_sizes(n, Dim(0)), std::nullopt);
  EXPECT_EQ(op("trunc_div").on_sizes(n - Dim(5), Dim(2)), std::nullopt);
  EXPECT_EQ(op("trunc_div").on_sizes(n, Dim(2)), floordiv(n, Dim(2)));
  EXPECT_EQ(op("lt").on_sizes(n, Dim(10)), Dim(1));
  EXPECT_EQ(op("lt").on_sizes(n, Dim(5)), std::nullopt);
  EXPECT_EQ(op("div").on_sizes, nullptr);
}

TEST(OpDefinition, FactsOfAtenOps) {
  EXPECT_EQ(aten_facts("aten.gather").indices, AtenFacts::Indices::along_axis);
  EXPECT_EQ(aten_facts("aten.remainder").divisor, 1);
  EXPECT_EQ(aten_facts("aten.topk").places_axis, 2);
  EXPECT_EQ(aten_facts("aten.no_such_op").padding, AtenFacts::Padding::unknown);
}

}  // namespace
}  // namespace gex
