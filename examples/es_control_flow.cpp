// If and While: branches are functions that build a subgraph from their arguments.

#include "show.hpp"

using namespace gex::es;

int main() {
  EsGraphBuilder builder("collatz");
  auto start = builder.CreateInput(0, "start", DType::i64, {});
  // How many steps until the number is 1: halve it if it is even, else triple it and add one.
  const auto results = While(
      {start, builder.CreateScalar(std::int64_t{0})},
      [](EsGraphBuilder&, const Holders& in) -> Holders { return {Ne(in[0], 1)}; },
      [](EsGraphBuilder&, const Holders& in) -> Holders {
        const auto next = If(
            Eq(Mod(in[0], 2), 0), {in[0]},
            [](EsGraphBuilder&, const Holders& even) -> Holders { return {even[0] / 2}; },
            [](EsGraphBuilder&, const Holders& odd) -> Holders { return {odd[0] * 3 + 1}; });
        return {next[0], in[1] + 1};
      });
  const auto program = examples::Show(*builder.BuildAndReset({results[1]}));
  for (std::int64_t number : {1, 7, 27})
    examples::Run(program, {Tensor::Of<std::int64_t>({}, {number})});
}
