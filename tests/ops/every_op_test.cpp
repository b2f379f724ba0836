// One driver over the registry: every op, every dtype it accepts, a symbolic size bound to several
// numbers.

#include <gtest/gtest.h>

#include <cmath>

#include "loop/single_op.hpp"
#include "sample_graphs.hpp"

namespace gex {
namespace {

using namespace test;

TEST(EveryOp, HasASample) {
  for (const OpDef* op : computed_ops()) EXPECT_NE(sample_of(*op), nullptr) << op->name;
}

TEST(EveryOp, AcceptsSomeDtypeAndRejectsOthersAsTypeMismatch) {
  for (const OpDef* op : computed_ops()) {
    if (sample_of(*op) == nullptr) continue;
    int accepted = 0;
    for (int d = 0; d < kDTypeCount; ++d)
      accepted += graph_of(*op, static_cast<DType>(d)) != nullptr;
    EXPECT_GT(accepted, 0) << op->name;
  }
}

TEST(EveryOp, ShapeRuleOnSymbolsAgreesWithConcreteRuns) {
  for (const OpDef* op : computed_ops()) {
    if (sample_of(*op) == nullptr) continue;
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      const auto g = graph_of(*op, dtype);
      if (!g) continue;
      for (std::int64_t size : {1, 2, 5}) {
        SCOPED_TRACE(str(op->name, " ", dtype, " s=", size));
        const auto results = interp::interpret(*g, inputs_of(*op, dtype, size));
        ASSERT_EQ(results.size(), g->outputs().size());
        for (std::size_t k = 0; k < results.size(); ++k) {
          const Type& type = g->outputs()[k]->type();
          EXPECT_EQ(results[k].dtype(), type.dtype);
          ASSERT_EQ(results[k].shape().size(), type.shape.size());
          for (std::size_t i = 0; i < type.shape.size(); ++i) {
            EXPECT_EQ(results[k].shape()[i], type.shape[i].eval([&](Dim) { return size; }));
          }
          for (std::int64_t i = 0; is_float(type.dtype) && i < results[k].numel(); ++i) {
            ASSERT_FALSE(std::isnan(results[k].get(i))) << "element " << i;
          }
        }
      }
    }
  }
}

TEST(EveryOp, TextRoundTripKeepsGraphAndBits) {
  for (const OpDef* op : computed_ops()) {
    if (sample_of(*op) == nullptr || op->has(Trait::random)) continue;
    const std::int64_t size = 3;
    for (DType dtype : {DType::f32, DType::bf16, DType::i32}) {
      const auto symbolic = graph_of(*op, dtype);
      if (!symbolic) continue;
      SCOPED_TRACE(str(op->name, " ", dtype));
      const Tensors inputs = inputs_of(*op, dtype, size);
      const std::string text = print(*symbolic);
      const auto copy = parse_graph(text);
      EXPECT_TRUE(structurally_equal(*symbolic, *copy)) << text;
      EXPECT_EQ(interp::interpret(*symbolic, inputs), interp::interpret(*copy, inputs));
    }
  }
}

TEST(EveryOp, LowFloatsStayCloseToDouble) {
  for (const OpDef* op : computed_ops()) {
    const Sample* sample = sample_of(*op);
    if (sample == nullptr || op->has(Trait::random) || sample->inputs.empty()) continue;
    const auto g64 = graph_of(*op, DType::f64);
    if (!g64) continue;
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const auto g = graph_of(*op, dtype);
      if (!g) continue;
      SCOPED_TRACE(str(op->name, " ", dtype));
      // The same numbers, exactly representable in every dtype.
      Tensors coarse = inputs_of(*op, DType::bf16, 4), low, wide;
      for (std::size_t k = 0; k < coarse.size(); ++k) {
        const bool data = k > 0 && sample->inputs[k - 1].kind == Sample::Input::Kind::data;
        if (!data) {
          low.push_back(coarse[k]);
          wide.push_back(coarse[k]);
          continue;
        }
        low.push_back(tensor(dtype, coarse[k].shape(), values(coarse[k])));
        wide.push_back(tensor(DType::f64, coarse[k].shape(), values(coarse[k])));
      }
      const auto r = interp::interpret(*g, low), e = interp::interpret(*g64, wide);
      // Jumps (floor, comparisons, argmax) are exact on equal inputs; the rest is smooth.
      const double eps = dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 2e-3 : 1.6e-2;
      for (std::size_t k = 0; k < r.size(); ++k) {
        for (std::int64_t i = 0; i < r[k].numel(); ++i) {
          const double expected = e[k].get(i);
          ASSERT_NEAR(r[k].get(i), expected, eps * (1 + std::abs(expected))) << "element " << i;
        }
      }
    }
  }
}

TEST(EveryOp, ViewsOnlyLoad) {
  for (const OpDef* op : computed_ops()) {
    if (!op->has(Trait::view)) continue;
    const auto g = graph_of(*op, DType::f32);
    ASSERT_TRUE(g) << op->name;
    const loop::Kernel kernel = loop::kernel_of(*g->last());
    for (const loop::Stage& stage : kernel.stages) {
      for (const loop::Expr& e : stage.exprs) {
        EXPECT_EQ(e.kind, loop::Expr::Kind::load) << op->name;
      }
    }
  }
}

TEST(EveryOp, CommutativeOpsGiveTheSameBitsSwapped) {
  for (const OpDef* op : computed_ops()) {
    if (!op->has(Trait::commutative)) continue;
    for (DType dtype : {DType::f32, DType::bf16, DType::i32, DType::boolean}) {
      const HostTensor a = random_tensor(dtype, {50}, -3, 3, 1);
      const HostTensor b = random_tensor(dtype, {50}, -3, 3, 2);
      auto apply = [&](const HostTensor& x, const HostTensor& y) {
        return run_one([&](Graph& g, auto& v) { return ops::apply(g, op->name, {v[0], v[1]}); },
                       {x, y});
      };
      try {
        EXPECT_EQ(apply(a, b), apply(b, a)) << op->name << " " << dtype;
      } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ErrorCode::type_mismatch);
      }
    }
  }
}

TEST(EveryOp, IdempotentOpsAreIdempotent) {
  for (const OpDef* op : computed_ops()) {
    if (!op->has(Trait::idempotent)) continue;
    const HostTensor x = random_tensor(DType::f32, {50}, -3, 3);
    const auto once =
        run_one([&](Graph& g, auto& v) { return ops::apply(g, op->name, {v[0]}); }, {x});
    const auto twice =
        run_one([&](Graph& g, auto& v) { return ops::apply(g, op->name, {v[0]}); }, {once});
    EXPECT_EQ(once, twice) << op->name;
  }
}

}  // namespace
}  // namespace gex
