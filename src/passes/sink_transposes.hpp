#pragma once
// transpose(f(transpose(x, p)), q) -> f(x) where q undoes p and f is made of elementwise ops:
// layout changes around a piece of a network cancel. A transpose that meets no partner stays where
// it is: it is an index map, and costs nothing by itself.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool sink_transposes(Graph& graph, PassContext& context);
}
