// Key ops of the larger families against small hand-written references.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/random.hpp"
#include "run.hpp"

namespace gex {
namespace {

using namespace test;
using Values = std::vector<double>;
using Sizes = std::vector<std::int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void expect_near(const HostTensor& t, const Values& expected, double tolerance = 1e-5) {
  ASSERT_EQ(t.numel(), static_cast<std::int64_t>(expected.size()));
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    EXPECT_NEAR(t.get(i), expected[static_cast<std::size_t>(i)], tolerance) << "element " << i;
  }
}

TEST(Softmax, SumsToOneAndSurvivesLargeValues) {
  const auto y = run_one([](Graph& g, auto& v) { return ops::softmax(g, v[0], 1); },
                         {f32({2, 2}, {1000, 1000, 0, std::log(3.0)})});
  expect_near(y, {0.5, 0.5, 0.25, 0.75});
  const auto l = run_one([](Graph& g, auto& v) { return ops::log_softmax(g, v[0], 1); },
                         {f32({1, 2}, {0, std::log(3.0)})});
  expect_near(l, {std::log(0.25), std::log(0.75)});
}

TEST(Softmax, OfAZeroDimensionalValueIsOne) {
  expect_near(run_one([](Graph& g, auto& v) { return ops::softmax(g, v[0], 0); }, {f32({}, {5})}),
              {1});
}

TEST(Norm, LayerNormAlsoReturnsMeanAndDeviation) {
  const auto r = run(
      [](Graph& g, auto& v) {
        Node* n = g.add(op("layer_norm"), {v[0], v[1], nullptr}, ops::Norm{1, 0});
        return std::vector{n->output(0), n->output(1), n->output(2)};
      },
      {f32({1, 4}, {1, 3, 5, 7}), f32({4}, {1, 1, 1, 2})});
  const double d = std::sqrt(5.0);
  expect_near(r[0], {-3 / d, -1 / d, 1 / d, 6 / d});
  expect_near(r[1], {4});
  expect_near(r[2], {1 / d});
}

// A quotient and a product with the rounded reciprocal differ in the last bit.
TEST(Norm, DividesByTheDeviationOnRequest) {
  const auto normed = [](const char* name, bool divide, std::size_t result) {
    return run(
        [&](Graph& g, auto& v) {
          const std::vector<Value*> no_weights(op(name).inputs.size() - 1, nullptr);
          std::vector<Value*> inputs{v[0]};
          inputs.insert(inputs.end(), no_weights.begin(), no_weights.end());
          Node* n = g.add(op(name), inputs, ops::Norm{1, 0, divide});
          return std::vector{n->output(0), n->output(result)};
        },
        {f32({1, 4}, {-11, -1, 1, 11})});  // of mean 0 and variance 61
  };
  const float deviation = std::sqrt(61.0F), factor = 1 / deviation;
  ASSERT_NE(11 / deviation, 11 * factor);
  for (const auto& [name, reciprocal] : {std::pair{"layer_norm", 2}, std::pair{"rms_norm", 1}}) {
    const auto quotients = normed(name, true, static_cast<std::size_t>(reciprocal));
    EXPECT_EQ(quotients[0].get(3), 11 / deviation) << name;
    EXPECT_EQ(quotients[1].get(0), factor) << name;
    EXPECT_NE(normed(name, false, 1)[0].get(3), 11 / deviation) << name;
  }
}

TEST(Norm, VarianceUsesTheCorrection) {
  auto variance = [](double correction) {
    return run_one(
        [&](Graph& g, auto& v) {
          return ops::apply(g, "variance", {v[0]}, ops::Variance{{0}, false, correction});
        },
        {f32({4}, {1, 3, 5, 7})});
  };
  expect_near(variance(0), {5});
  expect_near(variance(1), {20.0 / 3});
}

TEST(Norm, BatchNormFollowsItsStatistics) {
  const auto y = run_one(
      [](Graph& g, auto& v) {
        return ops::apply(g, "batch_norm", {v[0], v[1], nullptr, v[2], v[3]}, ops::BatchNorm{0});
      },
      {f32({1, 2, 2}, {1, 2, 3, 4}), f32({2}, {1, 10}), f32({2}, {1, 3}), f32({2}, {4, 1})});
  expect_near(y, {0, 0.5, 0, 10});
}

TEST(Conv, MatchesTheDefinition) {
  const auto x = random_tensor(DType::f32, {2, 4, 5, 6}, -1, 1, 1);
  const auto w = random_tensor(DType::f32, {6, 2, 3, 2}, -1, 1, 2);
  const ops::Conv a{{2, 1}, {1, 2}, {1, 2}, 2, false};
  const auto y = run_one([&](Graph& g, auto& v) { return ops::conv2d(g, v[0], v[1], a); }, {x, w});
  ASSERT_EQ(y.shape(), (Sizes{2, 6, 3, 8}));
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 6; ++o)
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 8; ++j) {
          double sum = 0;
          for (int c = 0; c < 2; ++c)
            for (int p = 0; p < 3; ++p)
              for (int q = 0; q < 2; ++q) {
                const int h = i * 2 + p - 1, k = j + q * 2 - 2;
                if (h < 0 || h >= 5 || k < 0 || k >= 6) continue;
                const int channel = (o / 3) * 2 + c;
                sum += x.get(((n * 4 + channel) * 5 + h) * 6 + k) *
                       w.get(((o * 2 + c) * 3 + p) * 2 + q);
              }
          EXPECT_NEAR(y.get(((n * 6 + o) * 3 + i) * 8 + j), sum, 1e-5);
        }
}

TEST(Random, DropoutKeepsItsShareScaledUpAndBernoulliFollowsItsProbabilities) {
  const HostTensor key = tensor(DType::i64, {}, {7});
  const HostTensor ones = random_tensor(DType::f32, {100, 100}, 1, 1);
  std::int64_t kept = 0;
  const auto y = run_one(
      [](Graph& g, auto& v) {
        return ops::apply(g, "dropout", {v[0], v[1]}, ops::Dropout{.p = 0.25});
      },
      {ones, key});
  for (std::int64_t k = 0; k < y.numel(); ++k) {
    ASSERT_TRUE(y.get(k) == 0 || std::abs(y.get(k) - 4.0 / 3) < 1e-6) << y.get(k);
    kept += y.get(k) != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 7500, 200);
  const auto drawn = run_one(
      [](Graph& g, auto& v) {
        return ops::apply(g, "bernoulli", {v[0], v[1]}, ops::Bernoulli{.stream = 2});
      },
      {tensor(DType::f32, {4}, {0, 1, 0, 1}), key});
  expect_near(drawn, {0, 1, 0, 1});
}

TEST(Attention, WeighsValuesAndSharesHeads) {
  // Two query heads over one key-value head; equal scores average the values.
  const auto y = run_one(
      [](Graph& g, auto& v) {
        return ops::attention(g, v[0], v[1], v[2], nullptr, {.causal = true});
      },
      {f32({1, 2, 2, 1}, {0, 0, 0, 0}), f32({1, 1, 2, 1}, {1, 1}), f32({1, 1, 2, 1}, {10, 20})});
  expect_near(y, {10, 15, 10, 15});
}

TEST(Attention, AFullyMaskedQueryGivesZeros) {
  const auto y =
      run_one([](Graph& g, auto& v) { return ops::attention(g, v[0], v[1], v[2], v[3], {}); },
              {f32({1, 1, 2, 1}, {1, 1}), f32({1, 1, 2, 1}, {1, 1}), f32({1, 1, 2, 1}, {10, 20}),
               tensor(DType::boolean, {2, 2}, {0, 0, 1, 0})});
  expect_near(y, {0, 10});
}

TEST(Attention, AFullyMaskedQueryGivesNanOnRequest) {
  const auto y = run_one(
      [](Graph& g, auto& v) {
        return ops::attention(g, v[0], v[1], v[2], v[3], {.nan_if_fully_masked = true});
      },
      {f32({1, 1, 2, 1}, {1, 1}), f32({1, 1, 2, 1}, {1, 1}), f32({1, 1, 2, 1}, {10, 20}),
       tensor(DType::boolean, {2, 2}, {0, 0, 1, 0})});
  EXPECT_TRUE(std::isnan(y.get(0)));
  EXPECT_NEAR(y.get(1), 10, 1e-5);
}

TEST(Index, NegativeIndicesWrapAndOthersAreClamped) {
  const auto y = run_one([](Graph& g, auto& v) { return ops::take(g, v[0], v[1], 0); },
                         {f32({3}, {10, 20, 30}), i64({4}, {-1, 0, 2, 99})});
  expect_near(y, {30, 10, 30, 30});
}

TEST(Index, SeparatedIndexTensorsGoToTheFront) {
  const auto y =
      run_one([](Graph& g, auto& v) { return ops::index(g, v[0], {v[1], v[2]}, {0, 2}); },
              {f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), i64({3}, {0, 1, 1}), i64({3}, {1, 0, 1})});
  EXPECT_EQ(y.shape(), (Sizes{3, 2}));
  expect_near(y, {1, 3, 4, 6, 5, 7});
}

TEST(Index, PutAddsRepeatedIndices) {
  const auto y =
      run_one([](Graph& g, auto& v) { return ops::index_put(g, v[0], v[1], {v[2]}, {0}, "add"); },
              {f32({3}, {0, 0, 0}), f32({4}, {1, 2, 3, 4}), i64({4}, {0, 2, 0, 9})});
  expect_near(y, {4, 0, 2});
}

TEST(Index, ScatterFollowsItsMode) {
  auto scatter = [](const char* mode) {
    return run_one([&](Graph& g, auto& v) { return ops::scatter(g, v[0], v[1], v[2], 1, mode); },
                   {f32({1, 3}, {5, 5, 5}), i64({1, 2}, {2, 2}), f32({1, 2}, {7, 2})});
  };
  expect_near(scatter("set"), {5, 5, 2});
  expect_near(scatter("add"), {5, 5, 14});
  expect_near(scatter("max"), {5, 5, 7});
  expect_near(scatter("min"), {5, 5, 2});
  expect_near(scatter("mul"), {5, 5, 70});
  EXPECT_THROW(scatter("divide"), UserError);
}

TEST(Index, SliceUpdateWritesOverASlice) {
  const auto y =
      run_one([](Graph& g, auto& v) { return ops::slice_update(g, v[0], v[1], {Dim(1)}, {2}); },
              {f32({5}, {0, 1, 2, 3, 4}), f32({2}, {8, 9})});
  expect_near(y, {0, 8, 2, 9, 4});
}

TEST(Pool, MaxReturnsIndicesAndIgnoresPadding) {
  const auto r = run(
      [](Graph& g, auto& v) {
        Node* n = g.add("max_pool2d", {v[0]},
                        {{"kernel", ops::Ints{2, 2}},
                         {"stride", ops::Ints{2, 2}},
                         {"padding", ops::Ints{1, 1}}});
        return std::vector{n->output(0), n->output(1)};
      },
      {f32({1, 2, 2}, {-kInf, -1, -2, -3})});
  EXPECT_EQ(values(r[0]), (Values{-kInf, -1, -2, -3}));
  expect_near(r[1], {0, 1, 2, 3});
}

TEST(Pool, MaxKeepsNanAndTheFirstOfEqualValues) {
  const auto r = run(
      [](Graph& g, auto& v) {
        Node* n = g.add("max_pool2d", {v[0]}, {{"kernel", ops::Ints{1, 3}}});
        return std::vector{n->output(0), n->output(1)};
      },
      {f32({1, 1, 5}, {-0.0, 0.0, -1, kNan, 7})});
  const auto largest = values(r[0]);
  EXPECT_TRUE(std::signbit(largest[0]));
  EXPECT_TRUE(std::isnan(largest[1]) && std::isnan(largest[2]));
  expect_near(r[1], {0, 3, 3});
}

TEST(Pool, AverageCountsAsPytorchDoes) {
  auto average = [](bool include) {
    return run_one(
        [&](Graph& g, auto& v) {
          return g
              .add("avg_pool2d", {v[0]},
                   {{"kernel", ops::Ints{2, 2}},
                    {"stride", ops::Ints{2, 2}},
                    {"padding", ops::Ints{1, 1}},
                    {"count_include_pad", include}})
              ->output();
        },
        {f32({1, 2, 2}, {4, 8, 12, 16})});
  };
  expect_near(average(true), {1, 2, 3, 4});
  expect_near(average(false), {4, 8, 12, 16});
}

TEST(Scan, CumsumRunsAlongItsAxis) {
  auto cumsum = [](std::int64_t axis) {
    return run_one([&](Graph& g, auto& v) { return ops::cumsum(g, v[0], axis); },
                   {f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  };
  expect_near(cumsum(1), {1, 3, 6, 4, 9, 15});
  expect_near(cumsum(0), {1, 2, 3, 5, 7, 9});
}

TEST(Random, UniformIsInRangeSpreadAndRepeatable) {
  auto draw = [](double key, const char* name) {
    return run_one(
        [&](Graph& g, auto& v) {
          return g.add(name, {v[0]}, {{"shape", ops::Dims{Dim(4000)}}})->output();
        },
        {i64({}, {key})});
  };
  const auto u = draw(1, "random_uniform");
  EXPECT_EQ(u, draw(1, "random_uniform"));
  EXPECT_NE(u, draw(2, "random_uniform"));
  double mean = 0, square = 0;
  for (double x : values(u)) {
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    mean += x / 4000;
  }
  EXPECT_NEAR(mean, 0.5, 0.02);
  mean = 0;
  for (double x : values(draw(1, "random_normal"))) {
    mean += x / 4000;
    square += x * x / 4000;
  }
  EXPECT_NEAR(mean, 0, 0.06);
  EXPECT_NEAR(square, 1, 0.08);
}

TEST(AtenRows, NllLossIgnoresAndWeighs) {
  const auto r = run_aten("aten.nll_loss_forward.default",
                          [](auto& v) { return args(v[0], v[1], nullptr, 1, -100); },
                          {Type::tensor(DType::f32, {}), Type::tensor(DType::f32, {})},
                          {f32({3, 2}, {-1, -2, -3, -4, -5, -6}), i64({3}, {0, -100, 1})});
  ASSERT_EQ(r.size(), 2u);
  expect_near(r[0], {(1 + 6) / 2.0});
  expect_near(r[1], {2});
}

TEST(AtenRows, EmbeddingBackwardSkipsThePaddingIndex) {
  const auto r = run_aten("aten.embedding_dense_backward.default",
                          [](auto& v) { return args(v[0], v[1], 3, 1, false); },
                          {Type::tensor(DType::f32, {Dim(3), Dim(1)})},
                          {f32({3, 1}, {1, 2, 4}), i64({3}, {0, 1, 0})});
  expect_near(r.at(0), {5, 0, 0});
}

TEST(AtenRows, MaskedIndexPutWithOneValueIsAChoice) {
  const auto r = run_aten(
      "aten.index_put.default", [](auto& v) { return args(v[0], args(v[1]), v[2], false); },
      {Type::tensor(DType::f32, {Dim(3)})},
      {f32({3}, {1, 2, 3}), tensor(DType::boolean, {3}, {1, 0, 1}), f32({}, {9})});
  expect_near(r.at(0), {9, 2, 9});
}

TEST(AtenRows, BatchNormTrainingMovesRunningStatistics) {
  const auto r =
      run_aten("aten._native_batch_norm_legit_functional.default",
               [](auto& v) { return args(v[0], nullptr, nullptr, v[1], v[2], true, 0.5, 0.0); },
               {Type::tensor(DType::f32, {Dim(2), Dim(1), Dim(2)}),
                Type::tensor(DType::f32, {Dim(1)}), Type::tensor(DType::f32, {Dim(1)}),
                Type::tensor(DType::f32, {Dim(1)}), Type::tensor(DType::f32, {Dim(1)})},
               {f32({2, 1, 2}, {1, 3, 5, 7}), f32({1}, {0}), f32({1}, {1})});
  ASSERT_EQ(r.size(), 5u);
  const double d = std::sqrt(5.0);
  expect_near(r[0], {-3 / d, -1 / d, 1 / d, 3 / d});
  expect_near(r[1], {4});
  expect_near(r[2], {1 / d});
  expect_near(r[3], {2});
  expect_near(r[4], {0.5 + 0.5 * 20 / 3});
}

}  // namespace
}  // namespace gex
