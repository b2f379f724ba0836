#pragma once
// Products of one left operand with several matrices that never change become one product with all
// of them side by side, cut apart afterwards: queries, keys and values; gate and up. Only where the
// matrices are constants or frozen: else they would be copied at each call. What all of them are
// treated to alike (biases, casts, activations) is done once, before they are cut apart. O3: one
// large product reads its left operand once and is one launch, but what follows only some of the
// small ones no longer fits into its epilogue.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool merge_matmuls(Graph& graph, PassContext& context);
}
