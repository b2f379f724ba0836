#pragma once
// Chains of views that one view or none does the work of: slices of slices, casts around views,
// transposes that move nothing, what was cut apart put together again and the other way round. In
// the middle stage: each rule leaves work for canonicalise and the other way round.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool simplify_views(Graph& graph, PassContext& context);
}
