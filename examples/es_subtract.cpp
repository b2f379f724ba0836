// The smallest graph: an input minus a constant, built with GE's names, shown at three levels, run.
//   g++ -std=c++20 es_subtract.cpp -IPREFIX/include -LPREFIX/lib -lgex

#include <gex/compat/ge.hpp>

#include "show.hpp"

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
  const auto program = examples::Show(*build());
  examples::Run(program, {gex::es::Tensor::Of<float>({}, {3.5f})});
}
