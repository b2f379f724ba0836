#pragma once
// A fold of a large tensor to one number becomes a fold of rows and a fold of their results: rows
// are shared out to threads, one number is not. The order of additions depends on the sizes alone.
// Late, after composites are gone: their expansions contain folds too.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool split_reductions(Graph& graph, PassContext& context);
}
