// User-defined ops with attributes.

#include <gtest/gtest.h>
#include <gex/es.hpp>

#include <functional>

namespace gex::test {
namespace {

using namespace gex::es;

// One attribute of every type; the result shows whether they arrived.
void register_every_kind() {
  static const bool once = [] {
    RegisterOp("custom_op_test.every_kind", "", {"x"},
               {{"flag", false},
                {"integer", 3},
                {"real", 0.5},
                {"text", "none"},
                {"dtype", DType::f32},
                {"size", Size(1)},
                {"integers", std::vector<std::int64_t>{1}},
                {"reals", std::vector<double>{}},
                {"texts", std::vector<std::string>{}},
                {"sizes", Shape{1}}},
               [](EsGraphBuilder&, const Holders& in, const OpAttrs& attrs) -> Holders {
                 double sum = attrs.Bool("flag") ? 1000 : 0;
                 sum += static_cast<double>(attrs.Int("integer")) + attrs.Float("real");
                 for (const std::int64_t integer : attrs.Ints("integers"))
                   sum += static_cast<double>(integer);
                 for (const double real : attrs.Floats("reals")) sum += real;
                 const std::string text =
                     attrs.String("text") + std::to_string(attrs.Strings("texts").size());
                 if (text != "none0" && text != "some2")
                   throw std::runtime_error("no such text: " + text);
                 const EsTensorHolder y =
                     Expand(in[0] + static_cast<float>(sum), attrs.Sizes("sizes"));
                 return {Cast(y, attrs.DType("dtype")), Expand(in[0], {attrs.Size("size")})};
               });
    return true;
  }();
  EXPECT_TRUE(once);
}

TEST(CustomOps, AttributesOfEveryKindReachTheBody) {
  register_every_kind();
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {1});
  auto rows = builder.CreateInput(1, "rows", DType::f32, {"s0"});
  const auto plain = builder.ApplyMany("custom_op_test.every_kind", {x}, {}, 2);
  const auto given = builder.ApplyMany("custom_op_test.every_kind", {x},
                                       {{"flag", true},
                                        {"integer", 7},
                                        {"real", 0.25},
                                        {"text", "some"},
                                        {"dtype", DType::f64},
                                        {"size", Size("s0")},
                                        {"integers", {10, 20}},
                                        {"reals", {0.5, 0.125}},
                                        {"texts", std::vector<std::string>{"a", "b"}},
                                        {"sizes", Shape{"s0*2", 1}}},
                                       2);
  EXPECT_EQ(plain[0].type(), "f32[1]");
  EXPECT_EQ(given[0].type(), "f64[s0*2, 1]");
  EXPECT_EQ(given[1].type(), "f32[s0]");
  const auto graph = builder.BuildAndReset({plain[0], given[0], given[1] + rows});
  EXPECT_EQ(Graph::Parse(graph->Print())->Print(), graph->Print());
  const auto results =
      graph->Compile().Run({Tensor::Of<float>({1}, {0.5f}), Tensor::Of<float>({3}, {1, 2, 3})});
  EXPECT_EQ(results[0].ToVector<float>(), std::vector<float>{0.5f + 4.5f});
  EXPECT_EQ(results[1].ToVector<double>(), std::vector<double>(6, 0.5 + 1037.875));
  EXPECT_EQ(results[2].ToVector<float>(), (std::vector<float>{1.5f, 2.5f, 3.5f}));
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CustomOps, AttributeErrorsAreReported) {
  register_every_kind();
  EsGraphBuilder builder("g");
  auto x = builder.CreateInput(0, "x", DType::f32, {1});
  const auto apply = [&](const Attrs& attrs) {
    return message_of([&] { builder.ApplyMany("custom_op_test.every_kind", {x}, attrs, 2); });
  };
  EXPECT_NE(apply({{"text", "other"}}).find("no such text: other0"), std::string::npos);
  EXPECT_NE(apply({{"integer", "three"}}).find("integer"), std::string::npos);
  EXPECT_NE(apply({{"intger", 3}}).find("integer"), std::string::npos);
  const OpBody same = [](EsGraphBuilder&, const Holders& in, const OpAttrs& attrs) -> Holders {
    return {in[0] * static_cast<float>(attrs.Float("scale"))};
  };
  RegisterOp("custom_op_test.wrong_kind", "", {"x"}, {{"scale", 2}}, same);
  RegisterOp("custom_op_test.wrong_name", "", {"x"}, {{"factor", 2.0}}, same);
  EXPECT_NE(message_of([&] {
              builder.Apply("custom_op_test.wrong_kind", {x});
            }).find("declared with another type"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              builder.Apply("custom_op_test.wrong_name", {x});
            }).find("no attribute 'scale'"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              RegisterOp("custom_op_test.tensor", "", {"x"},
                         {{"table", Tensor::Of<float>({1}, {1})}}, same);
            }).find("make it an input"),
            std::string::npos);
}

}  // namespace
}  // namespace gex::test
