#pragma once
// Matmuls of one left operand with several constant matrices become one matmul with the
// concatenated matrices, split afterwards: queries, keys and values; gate and up. Only if the
// matrices are constants or frozen: otherwise they would be copied at each call. What is applied to
// all of them alike (biases, casts, activations) is done once, before the split. O3: one large
// matmul reads its left operand once and is one launch, but what follows only some of the small
// ones no longer fits into its epilogue.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool merge_matmuls(Graph& graph, PassContext& context);
}
