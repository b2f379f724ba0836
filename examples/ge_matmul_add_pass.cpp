// A fusion pass as it is written for GE: MatMul + Add becomes GEMM, for float operands only.
//
//   a   b
//    \\ /            a  b  c
//   MatMul  c  ==>   \\ | /
//       \\ /           GEMM
//       Add

#include <iostream>

#include "es_all_ops.h"
#include "ge/fusion/pass/pattern_fusion_pass.h"

using namespace ge;
using namespace fusion;

class MatMulAddPass : public PatternFusionPass {
 public:
  MatMulAddPass() : PatternFusionPass(PatternMatcherConfigBuilder().EnableIrAttrMatch().Build()) {}

 protected:
  std::vector<PatternUniqPtr> Patterns() override {
    std::vector<PatternUniqPtr> patterns;
    auto builder = es::EsGraphBuilder("pattern");
    auto [a, b, c] = builder.CreateInputs<3>();
    auto product = es::MatMul(a, b);
    auto sum = es::Add(product, c);
    auto graph = builder.BuildAndReset({sum});
    auto pattern = std::make_unique<Pattern>(std::move(*graph));
    pattern->CaptureTensor({*product.GetProducer(), 0}).CaptureTensor({*sum.GetProducer(), 0});
    patterns.emplace_back(std::move(pattern));
    return patterns;
  }

  bool MeetRequirements(const std::unique_ptr<MatchResult>& match_result) override {
    NodeIo sum;
    match_result->GetCapturedTensor(1, sum);
    for (int input : {0, 1}) {
      TensorDesc desc;
      if (sum.node.GetInputDesc(input, desc) != GRAPH_SUCCESS) return false;
      if (desc.GetDataType() != DT_FLOAT) return false;
    }
    return true;
  }

  GraphUniqPtr Replacement(const std::unique_ptr<MatchResult>& match_result) override {
    NodeIo product;
    match_result->GetCapturedTensor(0, product);
    bool transpose_x1 = false, transpose_x2 = false;
    product.node.GetAttr("transpose_x1", transpose_x1);
    product.node.GetAttr("transpose_x2", transpose_x2);
    std::vector<SubgraphInput> inputs;
    if (match_result->ToSubgraphBoundary()->GetAllInputs(inputs) != SUCCESS || inputs.size() != 3)
      return nullptr;
    auto builder = es::EsGraphBuilder("replacement");
    auto [a, b, c] = builder.CreateInputs<3>();
    auto one = builder.CreateScalar(1.0f);
    auto gemm = es::GEMM(a, b, c, one, one, transpose_x1, transpose_x2);
    auto graph = builder.BuildAndReset({gemm});
    if (InferShapeUtil::InferShape(*graph, *match_result) != SUCCESS) return nullptr;
    return graph;
  }
};

REG_FUSION_PASS(MatMulAddPass).Stage(CustomPassStage::kBeforeInferShape);

int main() {
  for (const DataType type : {DT_FLOAT, DT_INT32}) {
    auto builder = es::EsGraphBuilder("products");
    auto a = builder.CreateInput(0, "a", type, FORMAT_ND, {2, 2});
    auto b = builder.CreateInput(1, "b", type, FORMAT_ND, {2, 2});
    auto c = builder.CreateInput(2, "c", type, FORMAT_ND, {2, 2});
    const auto graph = builder.BuildAndReset({es::Add(es::MatMul(a, b), c)});
    std::cout << graph->Compile().Print(gex::es::Level::passes);
    if (type != DT_FLOAT) continue;
    const auto matrix = gex::es::Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
    for (float value : graph->Run({matrix, matrix, matrix})[0].ToVector<float>())
      std::cout << value << "\n";
  }
}
