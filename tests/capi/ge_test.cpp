// GE's names over gex.

#include <gtest/gtest.h>
#include <gex/compat/ge.hpp>

std::unique_ptr<ge::Graph> ge_listing();

namespace gex::test {
namespace {

using gex::es::Error;
using gex::es::Tensor;

TEST(Ge, the_listing_builds_the_expected_graph) {
  const auto graph = ge_listing();
  EXPECT_EQ(graph->Print(),
            "graph \"EsbGraph Sample\"(%input_0: f32[]) -> (f32[1]) {\n"
            "  %Const_0 = constant() {value = i64[1](0)} : i64[1]\n"
            "  %0 = cast(%Const_0) : f32[1]\n"
            "  %Sub_1 = sub(%input_0, %0) : f32[1]\n"
            "  return %Sub_1\n"
            "}\n");
}

TEST(Ge, the_listing_runs) {
  const auto graph = ge_listing();
  const auto results = graph->Run({Tensor::Of<float>({}, {3.5f})});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].text(), "f32[1]");
  EXPECT_EQ(results[0].ToVector<float>(), std::vector<float>{3.5f});
}

TEST(Ge, inputs_in_ge_form) {
  ge::es::EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", ge::DT_FLOAT16, ge::FORMAT_NCHW, {2, 3});
  EXPECT_EQ(x.type(), "f16[2, 3]");
  auto y = builder.CreateInput(1, "y", "Data");
  y.SetDataType(ge::DT_INT32).SetFormat(ge::FORMAT_ND).SetShape({4});
  EXPECT_EQ(y.type(), "i32[4]");
  EXPECT_THROW(builder.CreateInput(2, "z", "Foo"), Error);
  EXPECT_THROW(builder.CreateInput(2, "z", ge::DT_STRING, ge::FORMAT_ND, {}), Error);
  EXPECT_THROW(builder.CreateInput(2, "z", ge::DT_FLOAT, static_cast<ge::Format>(29), {}), Error);
  auto c = builder.CreateConst(std::vector<float>{1, 2}, {2}, ge::DT_BF16);
  EXPECT_EQ(c.type(), "bf16[2]");
}

TEST(Ge, add_of_relu_of_relu) {
  ge::es::EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", ge::DT_FLOAT, ge::FORMAT_ND, {2, 3});
  auto graph = builder.BuildAndReset({x + builder.Apply("relu", {builder.Apply("relu", {x})})});
  const auto results = graph->Run({Tensor::Of<float>({2, 3}, std::vector<float>(6, 1))});
  EXPECT_EQ(results[0].ToVector<float>(), std::vector<float>(6, 2));
}

}  // namespace
}  // namespace gex::test
