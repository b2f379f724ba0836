#pragma once
// batch_norm(conv2d(x, W) [+ bias]) -> conv2d(x, W') + bias' if W and the statistics are constants
// of the graph or frozen inputs, and W is f32 or bf16: W' and bias' are then computed once.
// Otherwise fusion puts the norm into the convolution's epilogue.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool fold_batch_norm(Graph& graph, PassContext& context);
}
