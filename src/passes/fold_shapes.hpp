#pragma once
// Arithmetic on sizes is done on the sizes themselves: dim(s0) * 2 + 1 is dim(s0*2 + 1), and a size
// that is known is a constant, with which fold goes on. Before fold for that reason.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool fold_shapes(Graph& graph, PassContext& context);
}
