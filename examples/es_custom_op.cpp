// A user-defined op, composed of others: its types are inferred from its expansion, it is one node
// in the built graph, and it is fused like any other.

#include "show.hpp"

using namespace gex::es;

int main() {
  RegisterOp("my.scaled_tanh", "tanh(x) times a scale, which may be absent.", {"x", "scale?"},
             [](EsGraphBuilder&, const Holders& in) -> Holders {
               auto y = Tanh(in[0]);
               return {in[1].empty() ? y : y * in[1]};
             });

  EsGraphBuilder builder("custom");
  auto x = builder.CreateInput(0, "x", DType::f32, {"rows", 4});
  auto scale = builder.CreateInput(1, "scale", DType::f32, {4});
  auto y = builder.Apply("my.scaled_tanh", {x, scale}) + builder.Apply("my.scaled_tanh", {x});
  const auto program = examples::Show(*builder.BuildAndReset({y}));
  examples::Run(program, {examples::Numbers({2, 4}), examples::Numbers({4}, 1)});

  EsGraphBuilder other("mistake");
  auto narrow = other.CreateInput(0, "narrow", DType::f32, {2, 4});
  auto wide = other.CreateInput(1, "wide", DType::f32, {5});
  try {
    other.Apply("my.scaled_tanh", {narrow, wide});
  } catch (const Error& error) {
    std::cout << "--- a wrong shape: " << error.what() << "\n";
  }
}
