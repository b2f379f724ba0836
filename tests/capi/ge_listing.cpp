// clang-format off
// A program for GE's builder, word for word. This file must compile with that one include.
#include <gex/compat/ge.hpp>

using namespace ge::es;

std::unique_ptr<ge::Graph> ge_listing() {
  auto builder = std::make_unique<EsGraphBuilder>("EsbGraph Sample");
  auto data0 = builder->CreateInput(0);
  data0 = data0 - builder->CreateVector({0});
  (void) builder->SetOutput(data0, 0);
  auto graph = builder->Build();
  return graph;
}
