#pragma once
// A contraction whose result is only read transposed writes it that way: heads and positions of
// attention come out in the order in which the next projection wants to read them, and no copy is
// made. Last of all passes: the layout is a property of this very value, which rewrites would lose.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool assign_layouts(Graph& graph, PassContext& context);
}
