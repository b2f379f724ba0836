#pragma once
// A reduction of a large tensor to one number becomes a reduction of rows and a reduction of their
// results: rows are distributed over threads. The order of additions depends only on the sizes.
// Late, after composites are expanded: their expansions contain reductions too.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool split_reductions(Graph& graph, PassContext& context);
}
