// Fusion passes under GE's names: what is refused, and what nodes report.

#include <gex/compat/ge_pass.hpp>

#include "pass_harness.hpp"

namespace {

using namespace ge;
using namespace ge::fusion;
using gex::test::error_of;
using gex::test::has;

// Replaces exp(x) by what the test says.
class ExpPass : public PatternFusionPass {
 public:
  static inline std::function<GraphUniqPtr(const std::unique_ptr<MatchResult>&)> replacement;

 protected:
  std::vector<PatternUniqPtr> Patterns() override {
    es::EsGraphBuilder builder("pattern");
    const auto y = es::Exp(builder.CreateInput(0));
    auto graph = builder.BuildAndReset({y});
    std::vector<PatternUniqPtr> patterns;
    patterns.push_back(std::make_unique<Pattern>(std::move(*graph)));
    patterns.back()->CaptureTensor({*y.GetProducer(), 0});
    return patterns;
  }
  GraphUniqPtr Replacement(const std::unique_ptr<MatchResult>& match) override {
    return replacement(match);
  }
};

class RegisteredExpPass {
 public:
  explicit RegisteredExpPass(decltype(ExpPass::replacement) replacement) {
    ExpPass::replacement = std::move(replacement);
    FusionPassOf<ExpPass>("ExpPass").Stage(CustomPassStage::kAfterInferShape).Register();
  }
  ~RegisteredExpPass() { gex::es::UnregisterPass("ExpPass"); }
};

std::string compile_error() {
  return error_of([] {
    gex::test::compiled(
        "graph main(%x: f32[3]) -> (f32[3]) {\n  %y = exp(%x) : f32[3]\n  return %y\n}");
  });
}

TEST(GePasses, AReplacementMustBeAGraphWithTheInputsOfTheMatch) {
  {
    const RegisteredExpPass pass([](const auto&) { return nullptr; });
    const std::string error = compile_error();
    EXPECT_TRUE(has(error, "ExpPass") && has(error, "returned no graph")) << error;
  }
  const RegisteredExpPass pass([](const auto&) {
    es::EsGraphBuilder builder("replacement");
    const auto [x, y] = builder.CreateInputs<2>();
    return builder.BuildAndReset({es::Add(x, y)});
  });
  const std::string error = compile_error();
  EXPECT_TRUE(has(error, "ExpPass") && has(error, "has 2 inputs, the match has 1")) << error;
}

TEST(GePasses, NodesReportTypesSizesAndAttributes) {
  const RegisteredExpPass pass([](const std::unique_ptr<MatchResult>& match) {
    NodeIo tensor;
    EXPECT_EQ(match->GetCapturedTensor(0, tensor), SUCCESS);
    AscendString type;
    EXPECT_EQ(tensor.node.GetType(type), GRAPH_SUCCESS);
    EXPECT_STREQ(type.GetString(), "Exp");
    TensorDesc desc;
    EXPECT_EQ(tensor.node.GetInputDesc(0, desc), GRAPH_SUCCESS);
    EXPECT_EQ(desc.GetShape().GetDims(), std::vector<std::int64_t>{3});
    EXPECT_EQ(tensor.node.GetOutputDesc(0, desc), GRAPH_SUCCESS);
    EXPECT_EQ(desc.GetDataType(), DT_FLOAT);
    EXPECT_EQ(tensor.node.GetInputDesc(1, desc), GRAPH_FAILED);
    std::int64_t number = 0;
    EXPECT_EQ(tensor.node.GetAttr("groups", number), GRAPH_FAILED);
    std::vector<SubgraphInput> inputs;
    EXPECT_EQ(match->ToSubgraphBoundary()->GetAllInputs(inputs), SUCCESS);
    EXPECT_EQ(inputs.size(), 1U);
    EXPECT_EQ(inputs.at(0).GetAllInputs().at(0).index, 0);
    es::EsGraphBuilder builder("replacement");
    const auto x = builder.CreateInput(0);
    EXPECT_EQ(x.type(), "f32[3]");  // of the matched tensor
    return builder.BuildAndReset({es::Neg(x)});
  });
  const auto program = gex::test::compiled(
      "graph main(%x: f32[3]) -> (f32[3]) {\n  %y = exp(%x) : f32[3]\n  return %y\n}");
  EXPECT_EQ(program.Run({gex::es::Tensor::Of<float>({3}, {1, 2, 3})})[0].ToVector<float>(),
            (std::vector<float>{-1, -2, -3}));
}

TEST(GePasses, AStageOfStreamsIsRefused) {
  const std::string error = error_of([] {
    FusionPassOf<ExpPass>("ExpPass").Stage(CustomPassStage::kAfterAssignLogicStream).Register();
  });
  EXPECT_TRUE(has(error, "kAfterAssignLogicStream")) << error;
}

TEST(GePasses, OutsideOfPassesInputsWithoutATypeAreScalars) {
  es::EsGraphBuilder builder("g");
  EXPECT_EQ(builder.CreateInput(0).type(), "f32[]");
}

}  // namespace
