#pragma once
// Computes at compile time what depends on constants alone: up to a few thousand elements with the
// reference executor, beyond that as fold_large.hpp says.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool fold_constants(Graph& graph, PassContext& context);

// Whether the node's results follow from its operands alone, and nobody wants to see it run.
bool may_be_computed(const Node& node);

// With the constants that only this node read: also levels without dead-code removal lose them.
void erase_with_orphans(Graph& graph, Node& node);
}  // namespace gex::passes
