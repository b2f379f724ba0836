// softmax(q @ k^T * scale + mask) @ v, written out: recognised as attention, one kernel.

#include "show.hpp"

using namespace gex::es;

int main() {
  EsGraphBuilder builder("attention");
  auto q = builder.CreateInput(0, "q", DType::f32, {1, 4, "tokens", 32});
  auto k = builder.CreateInput(1, "k", DType::f32, {1, 4, "tokens", 32});
  auto v = builder.CreateInput(2, "v", DType::f32, {1, 4, "tokens", 32});
  auto mask = builder.CreateInput(3, "mask", DType::f32, {1, 1, "tokens", "tokens"});
  auto scores = Matmul(q, Transpose(k, {0, 1, 3, 2})) * (1 / std::sqrt(32.0)) + mask;
  auto y = Matmul(Softmax(scores, -1), v);
  const auto program = examples::Show(*builder.BuildAndReset({y}));
  const std::vector<std::int64_t> shape = {1, 4, 10, 32};
  examples::Run(program, {examples::Numbers(shape), examples::Numbers(shape, 1),
                          examples::Numbers(shape, 2), examples::Numbers({1, 1, 10, 10}, 3)});
}
