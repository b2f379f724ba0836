#pragma once
// Removes pure nodes whose results nobody uses. First and last of every round: the other passes
// leave replaced nodes behind and do not clean up after themselves.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool eliminate_dead_code(Graph& graph, PassContext& context);
}
