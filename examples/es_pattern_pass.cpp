// A user-defined pass: the sum of two matmuls of one operand becomes one matmul with the sum.
// Pattern and replacement are built like any other graph.

#include <gex/pass.hpp>

#include "show.hpp"

using namespace gex::es;

namespace {

class MergeProducts : public PatternPass {
  std::vector<Pattern> Patterns() const override {
    EsGraphBuilder builder("two_products");
    auto x = builder.CreateInput(0, "x", DType::f32, {2, 2});
    auto w = builder.CreateInput(1, "w", DType::f32, {2, 2});
    auto v = builder.CreateInput(2, "v", DType::f32, {2, 2});
    return Only(builder.BuildAndReset({Matmul(x, w) + Matmul(x, v)}));
  }
  // Adding the weights must not broadcast one of them.
  bool MeetRequirements(const Match& match) const override {
    return match.Input(1).type() == match.Input(2).type();
  }
  Holders Replacement(const Match& match) const override {
    return {Matmul(match.Input(0), match.Input(1) + match.Input(2))};
  }
};

}  // namespace

int main() {
  EsGraphBuilder builder("products");
  auto x = builder.CreateInput(0, "x", DType::f32, {"rows", 8});
  auto w = builder.CreateConst(examples::Numbers({8, 4}, 1));
  auto v = builder.CreateConst(examples::Numbers({8, 4}, 2));
  const auto graph = builder.BuildAndReset({Relu(Matmul(x, w) + Matmul(x, v))});
  const Tensor rows = examples::Numbers({3, 8});

  std::cout << "--- without the pass\n";
  examples::Run(graph->Compile(), {rows});
  RegisterPass<MergeProducts>("merge-products", "early");
  const auto program = examples::Show(*graph);
  examples::Run(program, {rows});
}
