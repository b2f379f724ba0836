#pragma once
// A contraction whose result is only read transposed writes it that way: heads and positions of
// attention are stored in the order in which the next projection reads them, and no copy is made.
// The last pass: the layout is a property of the value, which rewrites would lose.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool assign_layouts(Graph& graph, PassContext& context);
}
