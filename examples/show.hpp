#pragma once
// What the examples share: a graph at three levels, how many kernels a run launches, the results.

#include <gex/es.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <vector>

namespace examples {

using gex::es::Tensor;

// Numbers in [-1, 1] that are the same in every run.
inline Tensor Numbers(std::vector<std::int64_t> shape, float phase = 0) {
  Tensor tensor(gex::es::DType::f32, shape);
  auto* values = static_cast<float*>(tensor.data());
  for (std::size_t k = 0; k < tensor.size(); ++k)
    values[k] = std::sin(static_cast<float>(k) * 0.7f + phase);
  return tensor;
}

inline void Print(const Tensor& tensor) {
  std::cout << tensor.text();
  const std::size_t shown = std::min<std::size_t>(tensor.size(), 6);
  for (std::size_t k = 0; k < shown; ++k) {
    if (tensor.dtype() == gex::es::DType::i64)
      std::cout << " " << static_cast<const std::int64_t*>(tensor.data())[k];
    else
      std::cout << " " << static_cast<const float*>(tensor.data())[k];
  }
  std::cout << (shown < tensor.size() ? " ...\n" : "\n");
}

inline gex::es::Program Show(const gex::es::Graph& graph) {
  using gex::es::Level;
  std::cout << "--- as built\n" << graph.PrintAbbreviated();
  gex::es::Program program = graph.Compile();
  std::cout << "--- tensor IR, after the passes\n" << program.Print(Level::graph);
  std::cout << "--- kernels, after fusion\n" << program.Print(Level::kernels);
  std::cout << "--- program, ready for replay\n" << program.Print(Level::program) << "\n";
  return program;
}

inline std::vector<Tensor> Run(const gex::es::Program& program, const std::vector<Tensor>& inputs) {
  const auto before = program.Counters().launches;
  std::vector<Tensor> results = program.Run(inputs);
  std::cout << "--- kernels in this run: " << program.Counters().launches - before << "\n";
  for (const Tensor& result : results) Print(result);
  return results;
}

}  // namespace examples
