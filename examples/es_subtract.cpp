// The smallest graph: an input minus a constant, built with GE's names, shown at three levels, run.
//   g++ -std=c++20 es_subtract.cpp -IPREFIX/include -LPREFIX/lib -lgex

#include <gex/compat/ge.hpp>
#include <iostream>

using namespace ge::es;

std::unique_ptr<ge::Graph> build() {
  auto builder = std::make_unique<EsGraphBuilder>("EsbGraph Sample");
  auto data0 = builder->CreateInput(0);
  data0 = data0 - builder->CreateVector({0});
  (void)builder->SetOutput(data0, 0);
  auto graph = builder->Build();
  return graph;
}

int main() {
  using gex::es::Level;
  const auto graph = build();
  std::cout << "--- as built\n" << graph->Print();
  const auto program = graph->Compile();
  std::cout << "--- graph, after the passes\n" << program.Print(Level::graph);
  std::cout << "--- kernels, after fusion\n" << program.Print(Level::kernels);
  std::cout << "--- program, ready for replay\n" << program.Print(Level::program) << "\n";
  const auto results = program.Run({gex::es::Tensor::Of<float>({}, {3.5f})});
  std::cout << "--- result\n"
            << results[0].text() << " " << results[0].ToVector<float>()[0] << "\n";
}
