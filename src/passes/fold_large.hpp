#pragma once
// What depends on constants alone and is too large for the reference executor: computed once while
// compiling, by compiled code, in one part. Only results that take no more memory than the lists
// they are made of: constants never make a program larger. What is larger (small weights that are
// cast to a wide dtype) is cheaper read small and computed again.

#include "passes/engine/pass.hpp"

namespace gex::passes {
// Does nothing without PassSettings::compute.
bool fold_large(Graph& graph, PassContext& context);
}  // namespace gex::passes
