#pragma once
// Computes at compile time what depends only on constants: up to a few thousand elements with the
// reference executor, more with fold_large.hpp.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool fold_constants(Graph& graph, PassContext& context);

// Whether the node's results depend only on its operands, and it may be removed.
bool may_be_computed(const Node& node);

// Also removes constants that only this node read, for levels without dead-code elimination.
void erase_with_orphans(Graph& graph, Node& node);
}  // namespace gex::passes
