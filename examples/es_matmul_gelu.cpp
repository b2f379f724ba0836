// gelu(x @ w + b) for any number of rows: one kernel, compiled once, run with several sizes.
//   g++ -std=c++20 es_matmul_gelu.cpp -IPREFIX/include -LPREFIX/lib -lgex

#include <gex/es.hpp>
#include <iostream>

using namespace gex::es;

int main() {
  EsGraphBuilder builder("linear_gelu");
  auto x = builder.CreateInput(0, "x", DType::f32, {"rows", 4});
  auto w = builder.CreateInput(1, "w", DType::f32, {4, 3});
  auto b = builder.CreateVector({0.5, -0.5, 0.0});
  auto y = builder.Apply("gelu", {builder.Apply("matmul", {x, w}) + b}, {{"approximate", "tanh"}});
  const auto graph = builder.BuildAndReset({y});

  const Program program = graph->Compile();
  std::cout << "--- graph, after the passes\n" << program.Print(Level::graph);
  std::cout << "--- kernels, after fusion\n" << program.Print(Level::kernels);
  std::cout << "--- program, ready for replay\n" << program.Print(Level::program) << "\n";

  const Tensor weights = Tensor::Of<float>({4, 3}, {1, 0, -1, 0, 1, 0, 1, 1, 0, -1, 0, 1});
  for (std::int64_t rows : {1, 2, 1}) {
    std::vector<float> values(static_cast<std::size_t>(rows) * 4);
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = 0.25f * static_cast<float>(k);
    const auto results = program.Run({Tensor::Of<float>({rows, 4}, values), weights});
    std::cout << "--- " << results[0].text() << "\n";
    for (float value : results[0].ToVector<float>()) std::cout << value << " ";
    std::cout << "\n";
  }
  const gex_counters counters = program.Counters();
  std::cout << "--- " << counters.calls << " calls, " << counters.launches << " launches, "
            << counters.captures << " captures\n";
  try {
    program.Run({Tensor(DType::f32, {2, 5}), weights});
  } catch (const Error& error) {
    std::cout << "--- a wrong shape: " << error.what() << "\n";
  }
}
