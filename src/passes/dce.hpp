#pragma once
// Removes unused pure nodes. First and last in every round: the other passes leave replaced nodes
// behind.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool eliminate_dead_code(Graph& graph, PassContext& context);
}
