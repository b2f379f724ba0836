// gelu(x @ w + b) for any number of rows: one kernel, compiled once, run with several sizes.

#include "show.hpp"

using namespace gex::es;

int main() {
  EsGraphBuilder builder("linear_gelu");
  auto x = builder.CreateInput(0, "x", DType::f32, {"rows", 4});
  auto w = builder.CreateInput(1, "w", DType::f32, {4, 3});
  auto b = builder.CreateVector({0.5, -0.5, 0.0});
  const auto program = examples::Show(*builder.BuildAndReset({Gelu(Matmul(x, w) + b, "tanh")}));

  const Tensor weights = Tensor::Of<float>({4, 3}, {1, 0, -1, 0, 1, 0, 1, 1, 0, -1, 0, 1});
  for (std::int64_t rows : {1, 2, 1})
    examples::Run(program, {examples::Numbers({rows, 4}), weights});
  const gex_counters counters = program.Counters();
  std::cout << "--- " << counters.calls << " calls, " << counters.captures << " captures\n";
  try {
    program.Run({Tensor(DType::f32, {2, 5}), weights});
  } catch (const Error& error) {
    std::cout << "--- a wrong shape: " << error.what() << "\n";
  }
}
