#include "passes/recognise_silu.hpp"

#include "ops/core/build.hpp"
#include "passes/engine/pattern_pass.hpp"

namespace gex::passes {

Pass recognise_silu() {
  PatternRule silu;
  silu.pattern = parse_graph(R"(graph silu(%x: f32[4]) -> (f32[4]) {
    %s = sigmoid(%x) : f32[4]
    %y = mul(%x, %s) : f32[4]
    return %y
  })");
  // Low floats round the sigmoid first: one op would give different bits than eager.
  silu.condition = [](const Match& match) { return !is_low_float(match.inputs[0]->type().dtype); };
  silu.replacement = [](Graph& graph, const Match& match) {
    return std::vector<Value*>{ops::silu(graph, match.inputs[0])};
  };
  PatternPass pass{"recognise-silu", "recognises x * sigmoid(x) as silu(x)", Stage::early, 2, {}};
  pass.rules.push_back(std::move(silu));
  return pattern_pass(std::move(pass));
}

}  // namespace gex::passes
