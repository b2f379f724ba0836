#pragma once
// reduce(cat(a, b, c), the axis of the cat) -> a combined with b and c, where each part has one
// element along that axis: torch.stack(...).sum(0), a sum of embeddings. The concatenation is never
// made, and no loop selects one of its parts for each element.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool reduced_parts(Graph& graph, PassContext& context);
}
