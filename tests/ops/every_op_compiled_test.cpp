// Every op of the registry as compiled code, against the reference executor: with dynamic sizes,
// with static sizes, with empty inputs, and on transposed memory.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <span>

#include "compile/compile.hpp"
#include "compile/execute.hpp"
#include "sample_graphs.hpp"

namespace gex {
namespace {

using namespace test;

constexpr std::int64_t kRunSize = 3;
// One dtype of each kind: computed directly, in a wider type, integers, bool.
constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::i64, DType::boolean};
constexpr DType kOtherDTypes[] = {DType::f16, DType::f64, DType::i32,
                                  DType::i16, DType::i8,  DType::u8};

// GEX_TEST_ALL=1 (make test-all): every way of giving memory and sizes for the other dtypes too.
bool tests_all() { return std::getenv("GEX_TEST_ALL") != nullptr; }

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 2e-5;
    case DType::f16:
      return 4e-3;
    case DType::bf16:
      return 3.2e-2;
    default:
      return 0;
  }
}

void expect_close(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < want.size(); ++k) {
    ASSERT_EQ(got[k].dtype(), want[k].dtype());
    ASSERT_EQ(got[k].shape(), want[k].shape());
    for (std::int64_t i = 0; i < want[k].numel(); ++i) {
      const double a = got[k].get(i), b = want[k].get(i);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      ASSERT_NEAR(a, b, tolerance(want[k].dtype()) * (1 + std::abs(b)))
          << "element " << i << " of result " << k;
    }
  }
}

void expect_same_as_interpreted(std::unique_ptr<Graph> graph, Tensors inputs) {
  const Tensors want = interp::interpret(*graph, inputs);
  const Compiled compiled = compile(std::move(graph));
  runtime::Session session(compiled.executable, {}, compiled.specialiser);
  expect_close(execute(session, inputs), want);
}

template <class Check>
int for_every_op(std::span<const DType> dtypes, const Check& check) {
  int checked = 0;
  for (const OpDef* op : computed_ops()) {
    if (sample_of(*op) == nullptr) continue;
    for (const DType dtype : dtypes) {
      const auto graph = graph_of(*op, dtype);
      if (!graph) continue;
      SCOPED_TRACE(str(op->name, " ", dtype));
      check(*op, dtype, *graph);
      ++checked;
    }
  }
  return checked;
}

template <class Check>
void for_every_op(const Check& check) {
  EXPECT_GT(for_every_op(kDTypes, check), 250);
  if (tests_all()) for_every_op(kOtherDTypes, check);
}

TEST(EveryOpCompiled, WithDynamicSizes) {
  for_every_op([](const OpDef& op, DType dtype, const Graph& graph) {
    expect_same_as_interpreted(graph.clone(), inputs_of(op, dtype, kRunSize));
  });
}

TEST(EveryOpCompiled, OfOtherDTypes) {
  const int checked =
      for_every_op(kOtherDTypes, [](const OpDef& op, DType dtype, const Graph& graph) {
        expect_same_as_interpreted(graph.clone(), inputs_of(op, dtype, kRunSize));
      });
  EXPECT_GT(checked, 400);
}

TEST(EveryOpCompiled, WithStaticSizes) {
  for_every_op([](const OpDef& op, DType dtype, const Graph& graph) {
    expect_same_as_interpreted(with_size(graph, kRunSize), inputs_of(op, dtype, kRunSize));
  });
}

TEST(EveryOpCompiled, OnTransposedMemory) {
  for_every_op([](const OpDef& op, DType dtype, const Graph& graph) {
    Tensors inputs = inputs_of(op, dtype, kRunSize);
    auto reading = with_transposed_inputs(graph, inputs);
    expect_same_as_interpreted(std::move(reading), std::move(inputs));
  });
}

TEST(EveryOpCompiled, OnEmptyInputsOrRejectedWithAReason) {
  int of_nothing = 0;
  for_every_op([&](const OpDef& op, DType dtype, const Graph& graph) {
    std::unique_ptr<Graph> empty;
    try {
      empty = with_size(graph, 0);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ErrorCode::shape_mismatch) << error.what();
      return;
    }
    ++of_nothing;
    expect_same_as_interpreted(std::move(empty), inputs_of(op, dtype, 0));
  });
  EXPECT_GT(of_nothing, 200);
}

}  // namespace
}  // namespace gex
