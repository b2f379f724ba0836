#pragma once
// Computes at compile time what depends on constants alone, with the reference executor. Results
// larger than a few thousand elements stay computed: a kernel makes them faster than memory
// delivers them.

#include "passes/pass.hpp"

namespace gex::passes {
bool fold_constants(Graph& graph, PassContext& context);
}
