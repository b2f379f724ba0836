#pragma once
// Merges pure nodes that compute the same from the same values. After canonicalisation, so that
// equal computations look equal; before folding, which would visit each of them.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool merge_equal_nodes(Graph& graph, PassContext& context);
}
