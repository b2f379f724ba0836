#pragma once
// Replaces composites (softmax, norms, ...) by the ops they are made of. Late: earlier passes see
// the user's own ops. Composites that are problems (attention) stay.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool expand_composites(Graph& graph, PassContext& context);
}
