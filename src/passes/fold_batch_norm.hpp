#pragma once
// batch_norm(conv2d(x, W) [+ bias]) -> conv2d(x, W') + bias' if W and the statistics are constants
// of the graph, that is, frozen. If they are inputs, their contents may not be used, and fusion
// puts the norm into the convolution's epilogue instead.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool fold_batch_norm(Graph& graph, PassContext& context);
}
