#pragma once
// Arithmetic on sizes is done symbolically: dim(s0) * 2 + 1 is dim(s0*2 + 1), and a known size is a
// constant, which fold uses. Therefore before fold.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool fold_shapes(Graph& graph, PassContext& context);
}
