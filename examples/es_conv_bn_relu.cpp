// relu(batch_norm(conv2d(x))): the statistics are constants, so the norm is folded into the
// weights; the rest of it and the relu are an epilogue of the convolution. One kernel.

#include "show.hpp"

using namespace gex::es;

int main() {
  EsGraphBuilder builder("conv_bn_relu");
  auto x = builder.CreateInput(0, "x", DType::f32, {"batch", 3, 16, 16});
  auto weight = builder.CreateConst(examples::Numbers({8, 3, 3, 3}));
  auto gamma = builder.CreateConst(examples::Numbers({8}, 1));
  auto beta = builder.CreateConst(examples::Numbers({8}, 2));
  auto mean = builder.CreateConst(examples::Numbers({8}, 3));
  auto variance = builder.CreateVector(std::vector<float>(8, 0.5f));
  auto y = Conv2d(x, weight, {1, 1}, {1, 1});
  auto normed = BatchNorm(y, gamma, beta, mean, variance, 1e-5);
  const auto program = examples::Show(*builder.BuildAndReset({Relu(normed)}));
  examples::Run(program, {examples::Numbers({2, 3, 16, 16})});
}
