// A fusion pass and its use as they are written for GE: adding a constant of zeros is removed.
//
//   x   Const(0)
//    \\ /             x
//    Add      ==>    |

#include <cmath>
#include <iostream>

#include "es_all_ops.h"
#include "ge/fusion/pass/pattern_fusion_pass.h"

using namespace ge;
using namespace fusion;

class AddZeroPass : public PatternFusionPass {
 protected:
  std::vector<PatternUniqPtr> Patterns() override {
    std::vector<PatternUniqPtr> patterns;
    auto builder = es::EsGraphBuilder("pattern");
    auto x = builder.CreateInput(0);
    auto zero = es::Const(builder);
    auto sum = es::Add(x, zero);
    auto graph = builder.BuildAndReset({sum});
    patterns.emplace_back(std::make_unique<Pattern>(std::move(*graph)));
    return patterns;
  }

  bool MeetRequirements(const std::unique_ptr<MatchResult>& match_result) override {
    for (GNode node : match_result->GetMatchedNodes()) {
      AscendString type;
      node.GetType(type);
      if (!(type == "Const")) continue;
      Tensor value;
      if (node.GetAttr("value", value) != GRAPH_SUCCESS || !IsZero(value)) return false;
    }
    return true;
  }

  GraphUniqPtr Replacement(const std::unique_ptr<MatchResult>& /*match_result*/) override {
    auto builder = es::EsGraphBuilder("replacement");
    auto x = builder.CreateInput(0);
    return builder.BuildAndReset({x});
  }

 private:
  static bool IsZero(const Tensor& tensor) {
    if (tensor.GetTensorDesc().GetDataType() != DT_FLOAT) return false;
    const auto* values = reinterpret_cast<const float*>(tensor.GetData());
    for (std::size_t k = 0; k < tensor.GetSize() / sizeof(float); ++k)
      if (std::fabs(values[k]) > 0) return false;
    return true;
  }
};

REG_FUSION_PASS(AddZeroPass).Stage(CustomPassStage::kBeforeInferShape);

int main() {
  auto builder = es::EsGraphBuilder("sum");
  auto x = builder.CreateInput(0, "x", DT_FLOAT, FORMAT_ND, {2, 2});
  auto with_zero = es::Add(x, builder.CreateConst(std::vector<float>(4, 0.0f), {2, 2}));
  auto with_one = es::Add(with_zero, builder.CreateConst(std::vector<float>(4, 1.0f), {2, 2}));
  const auto graph = builder.BuildAndReset({with_one});
  std::cout << graph->Compile().Print(gex::es::Level::passes);

  Session session;
  if (session.AddGraph(0, *graph) != SUCCESS) return 1;
  const std::vector<float> values = {1, 2, 3, 4};
  const TensorDesc desc(Shape({2, 2}), FORMAT_ND, DT_FLOAT);
  const Tensor input(desc, reinterpret_cast<const uint8_t*>(values.data()), 16);
  std::vector<Tensor> outputs;
  if (session.RunGraph(0, {input}, outputs) != SUCCESS) return 1;
  const auto* results = reinterpret_cast<const float*>(outputs[0].GetData());
  for (int k = 0; k < 4; ++k) std::cout << results[k] << (k < 3 ? " " : "\n");
}
