// GE's own names: everything here is written as in programs for GE.

#include <gtest/gtest.h>
#include <gex/compat/ge.hpp>
#include <gex/compat/ge_ops.hpp>
#include <gex/compat/ge_session.hpp>

namespace {

using namespace ge;
using namespace ge::es;

using gex::es::Tensor;

std::vector<float> run(EsGraphBuilder& builder, const EsTensorHolder& y,
                       const std::vector<Tensor>& inputs) {
  return builder.BuildAndReset({y})->Run(inputs)[0].ToVector<float>();
}

TEST(GeNames, BothHeadersTogether) {
  EsGraphBuilder builder("g");
  const auto x = builder.CreateInput(0, "x", DT_FLOAT, FORMAT_ND, {2, 2});
  const auto y = Add(MatMul(x, x), Relu(x));
  EXPECT_EQ(run(builder, y, {Tensor::Of<float>({2, 2}, {1, 2, 3, 4})}),
            (std::vector<float>{8, 12, 18, 26}));
}

TEST(GeNames, SizesDeterminedAtRunTime) {
  EsGraphBuilder builder("g");
  const TensorDesc desc(ge::Shape({-1, 3}), FORMAT_ND, DT_FLOAT);
  EXPECT_EQ(desc.GetShape().GetShapeSize(), -1);
  const auto x = builder.CreateInput(0, "x", desc);
  const auto graph = builder.BuildAndReset({ReduceSumD(x, {-1})});
  for (const std::int64_t rows : {1, 4}) {
    const std::vector<float> ones(static_cast<std::size_t>(rows * 3), 1);
    EXPECT_EQ(graph->Run({Tensor::Of<float>({rows, 3}, ones)})[0].ToVector<float>(),
              std::vector<float>(static_cast<std::size_t>(rows), 3));
  }
}

TEST(GeNames, Products) {
  EsGraphBuilder builder("g");
  const auto a = builder.CreateInput(0, "a", DT_FLOAT, FORMAT_ND, {1, 2, 3});
  const auto b = builder.CreateInput(1, "b", DT_FLOAT, FORMAT_ND, {1, 2, 3});
  const auto y = BatchMatMul(a, b, false, true);
  EXPECT_EQ(run(builder, y,
                {Tensor::Of<float>({1, 2, 3}, {1, 2, 3, 4, 5, 6}),
                 Tensor::Of<float>({1, 2, 3}, {1, 0, 0, 0, 1, 0})}),
            (std::vector<float>{1, 2, 4, 5}));
  EsGraphBuilder convolution("convolution");
  const auto image = convolution.CreateInput(0, "image", DT_FLOAT, FORMAT_NCHW, {1, 1, 3, 3});
  const auto filter = convolution.CreateConst(std::vector<float>(4, 1), {1, 1, 2, 2});
  const auto bias = convolution.CreateConst(std::vector<float>{10}, {1});
  const auto sums = Conv2D(image, filter, bias, {1, 1, 1, 1}, {0, 0, 0, 0});
  EXPECT_EQ(run(convolution, sums, {Tensor::Of<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})}),
            (std::vector<float>{22, 26, 34, 38}));
}

TEST(GeNames, ElementsReductionsAndShapes) {
  const Tensor input = Tensor::Of<float>({2, 3}, {-1, 0, 1, 2, 3, 8});
  const auto expect = [&](auto op, const std::vector<float>& expected) {
    EsGraphBuilder builder("g");
    const EsTensorHolder x = builder.CreateInput(0, "x", DT_FLOAT, FORMAT_ND, {2, 3});
    EXPECT_EQ(run(builder, op(x), {input}), expected);
  };
  expect([](auto& x) { return Relu6(x); }, {0, 0, 1, 2, 3, 6});
  expect([](auto& x) { return Square(x); }, {1, 0, 1, 4, 9, 64});
  expect([](auto& x) { return Adds(Muls(x, 2), 1); }, {-1, 1, 3, 5, 7, 17});
  expect([](auto& x) { return SelectV2(Greater(x, 0.5), x, ZerosLike(x)); }, {0, 0, 1, 2, 3, 8});
  expect([](auto& x) { return AddN({x, x, OnesLike(x)}); }, {-1, 1, 3, 5, 7, 17});
  expect([](auto& x) { return ReduceMaxD(x, {1}); }, {1, 8});
  expect([](auto& x) { return ReduceSumD(x, {}); }, {13});
  expect([](auto& x) { return ReduceMeanD(x, {0}, true); }, {0.5, 1.5, 4.5});
  expect([](auto& x) { return CumsumD(x, -1); }, {-1, -1, 0, 2, 5, 13});
  expect([](auto& x) { return TopKD(x, 1).values; }, {1, 8});
  expect([](auto& x) { return TransposeD(x, {1, 0}); }, {-1, 2, 0, 3, 1, 8});
  expect([](auto& x) { return Squeeze(ExpandDims(x, -1)); }, {-1, 0, 1, 2, 3, 8});
  expect([](auto& x) { return Flatten(Unsqueeze(x, {0, 3}), 0); }, {-1, 0, 1, 2, 3, 8});
  expect([](auto& x) { return SplitD(x, 1, 3)[2]; }, {1, 8});
  expect([](auto& x) { return Pack(Unpack(x, 2), 0); }, {-1, 0, 1, 2, 3, 8});
  expect([](auto& x) { return SliceD(x, {0, 1}, {2, 1}); }, {0, 3});
  expect([](auto& x) { return ReduceSumD(PadD(x, {{0, 1}, {1, 0}}), {0}); }, {0, 1, 3, 9});
  expect([](auto& x) { return Cast(Cast(x, DT_INT32), DT_FLOAT); }, {-1, 0, 1, 2, 3, 8});
}

TEST(GeNames, StatusesAndStrings) {
  EXPECT_EQ(GRAPH_SUCCESS, 0U);
  EXPECT_NE(GRAPH_FAILED, GRAPH_SUCCESS);
  const AscendString name("conv1");
  EXPECT_STREQ(name.GetString(), "conv1");
  EXPECT_EQ(name.GetLength(), 5U);
  EXPECT_TRUE(AscendString() < name);
}

TEST(GeNames, ASessionRunsGraphs) {
  ASSERT_EQ(GEInitialize({}), SUCCESS);
  EsGraphBuilder builder("g");
  const auto x = builder.CreateInput(0, "x", DT_FLOAT, FORMAT_ND, {-1});
  const auto graph = builder.BuildAndReset({Muls(x, 2)});
  Session session;
  ASSERT_EQ(session.AddGraph(7, *graph), SUCCESS);
  const std::vector<float> values{1, 2, 3};
  const TensorDesc desc(ge::Shape({3}), FORMAT_ND, DT_FLOAT);
  const ge::Tensor input(desc, reinterpret_cast<const std::uint8_t*>(values.data()), 12);
  std::vector<ge::Tensor> outputs;
  ASSERT_EQ(session.RunGraph(7, {input}, outputs), SUCCESS);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].GetTensorDesc().GetShape().GetDims(), std::vector<std::int64_t>{3});
  EXPECT_EQ(outputs[0].GetSize(), 12U);
  EXPECT_EQ(reinterpret_cast<const float*>(outputs[0].GetData())[2], 6);
  EXPECT_FALSE(session.IsGraphNeedRebuild(7));
  EXPECT_THROW(session.AddGraph(7, *graph), gex::es::Error);
  ASSERT_EQ(session.RemoveGraph(7), SUCCESS);
  EXPECT_THROW(session.RunGraph(7, {input}, outputs), gex::es::Error);
  EXPECT_THROW(ge::Tensor(desc, nullptr, 4), gex::es::Error);
  ASSERT_EQ(GEFinalize(), SUCCESS);
}

TEST(GeNames, ErrorsAreReported) {
  EsGraphBuilder builder("g");
  const auto x = builder.CreateInput(0, "x", DT_FLOAT, FORMAT_ND, {2, 3});
  EXPECT_THROW(ReduceSumD(x, {2}), gex::es::Error);
  EXPECT_THROW(Squeeze(x, {0}), gex::es::Error);
  EXPECT_THROW(Conv2D(x, x, nullptr, {1, 1}, {0, 1, 0, 0}), gex::es::Error);
}

}  // namespace
