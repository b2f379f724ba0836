#pragma once
// Chains of views that can be replaced by one view or none: slices of slices, casts around views,
// transposes that move nothing, concatenations of slices and slices of concatenations. In the
// middle stage: each rule enables canonicalise and vice versa.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool simplify_views(Graph& graph, PassContext& context);
}
