#pragma once
// Makes indices out of range errors, as in PyTorch. The ops themselves only guarantee to stay
// inside their tensors (gathers clamp, scatters skip); add_index_checks() adds the smallest and
// largest index, a comparison, and a call to the host if it fails.

#include "ir/graph.hpp"
#include "runtime/session/index_check.hpp"

namespace gex {

// For index, index_put, take_along and scatter, also in subgraphs. Indices known to be valid cost
// nothing. UserError(invalid_argument): a constant index is out of range.
void add_index_checks(Graph& graph);

}  // namespace gex
