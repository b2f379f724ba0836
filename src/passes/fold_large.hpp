#pragma once
// Computes what depends only on constants and is too large for the reference executor, once at
// compile time, with compiled code, in one part. Only results that need no more memory than the
// constants they depend on: folding never makes a program larger. Larger ones (small weights cast
// to a wide dtype) are cheaper to recompute.

#include "passes/engine/pass.hpp"

namespace gex::passes {
// Does nothing without PassSettings::compute.
bool fold_large(Graph& graph, PassContext& context);
}  // namespace gex::passes
