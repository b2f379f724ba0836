// Two convolutions with batch norm, a residual and relu: two kernels.

#include "show.hpp"

using namespace gex::es;

namespace {

constexpr std::int64_t kChannels = 16;

EsTensorHolder ConvNorm(EsGraphBuilder& builder, const EsTensorHolder& x, float phase) {
  const auto numbers = [&](std::vector<std::int64_t> shape, float more) {
    return builder.CreateConst(examples::Numbers(std::move(shape), phase + more));
  };
  auto y = Conv2d(x, numbers({kChannels, kChannels, 3, 3}, 0), {1, 1}, {1, 1});
  auto variance = builder.CreateVector(std::vector<float>(kChannels, 2.0f));
  return BatchNorm(y, numbers({kChannels}, 1), numbers({kChannels}, 2), numbers({kChannels}, 3),
                   variance);
}

}  // namespace

int main() {
  EsGraphBuilder builder("resnet_block");
  auto x = builder.CreateInput(0, "x", DType::f32, {1, kChannels, 14, 14});
  auto inner = Relu(ConvNorm(builder, x, 0.1f));
  auto y = Relu(ConvNorm(builder, inner, 0.2f) + x);
  const auto program = examples::Show(*builder.BuildAndReset({y}));
  examples::Run(program, {examples::Numbers({1, kChannels, 14, 14})});
}
