// A decompose pass as it is written for GE: a grouped Conv2D becomes one Conv2D for each group.

#include <iostream>

#include "es_all_ops.h"
#include "ge/fusion/infer_shape_util.h"
#include "ge/fusion/pass/decompose_pass.h"

using namespace ge;
using namespace fusion;

class GroupedConvPass : public DecomposePass {
 public:
  explicit GroupedConvPass(const std::vector<AscendString>& op_types) : DecomposePass(op_types) {}

 protected:
  bool MeetRequirements(const GNode& node) override {
    int64_t groups = 0;
    AscendString data_format;
    if (node.GetAttr("groups", groups) != GRAPH_SUCCESS ||
        node.GetAttr("data_format", data_format) != GRAPH_SUCCESS)
      return false;
    return groups != 1 && data_format == "NCHW";
  }

  GraphUniqPtr Replacement(const GNode& node) override {
    int64_t groups = 0;
    std::vector<int64_t> strides, pads, dilations;
    if (node.GetAttr("groups", groups) != GRAPH_SUCCESS ||
        node.GetAttr("strides", strides) != GRAPH_SUCCESS ||
        node.GetAttr("pads", pads) != GRAPH_SUCCESS ||
        node.GetAttr("dilations", dilations) != GRAPH_SUCCESS)
      return nullptr;
    auto builder = es::EsGraphBuilder("replacement");
    auto [x, filter] = builder.CreateInputs<2>();
    auto images = es::Split(builder.CreateScalar(1), x, groups, groups);
    auto filters = es::Split(builder.CreateScalar(0), filter, groups, groups);
    std::vector<es::EsTensorHolder> results;
    for (int64_t k = 0; k < groups; ++k) {
      auto result =
          es::Conv2D(images[k], filters[k], nullptr, nullptr, strides, pads, dilations, 1, "NCHW");
      TensorDesc desc(Shape(), FORMAT_NCHW, DT_FLOAT);
      desc.SetOriginFormat(FORMAT_NCHW);
      result.GetProducer()->UpdateInputDesc(0, desc);
      result.GetProducer()->UpdateOutputDesc(0, desc);
      results.emplace_back(result);
    }
    auto all = es::Concat(builder.CreateScalar(1), results, groups);
    auto graph = builder.BuildAndReset({all});
    if (InferShapeUtil::InferShape(*graph, node) != SUCCESS) return nullptr;
    return graph;
  }
};

REG_DECOMPOSE_PASS(GroupedConvPass, {"Conv2D"}).Stage(CustomPassStage::kAfterInferShape);

int main() {
  auto builder = es::EsGraphBuilder("convolution");
  auto x = builder.CreateInput(0, "x", DT_FLOAT, FORMAT_NCHW, {1, 4, 3, 3});
  auto filter = builder.CreateConst(std::vector<float>(16, 0.5f), {4, 1, 2, 2});
  auto y =
      es::Conv2D(x, filter, nullptr, nullptr, {1, 1, 1, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}, 4, "NCHW");
  const auto graph = builder.BuildAndReset({y});
  const auto program = graph->Compile();
  std::cout << program.Print(gex::es::Level::graph) << program.Print(gex::es::Level::passes);
  const auto image = gex::es::Tensor::Of<float>({1, 4, 3, 3}, std::vector<float>(36, 2.0f));
  for (float value : program.Run({image})[0].ToVector<float>()) std::cout << value << " ";
  std::cout << "\n";
}
