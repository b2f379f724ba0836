#pragma once
// Ops over several axes that equal the same op over the last axis and over the others, one after
// the other. Each function returns such a chain at the insertion point with the same numbers, or
// null if one pass over all axes is cheaper or the node is another op.

#include "ir/graph.hpp"

namespace gex::ops {

// interpolate: the positions of a row are read once for each row of the input instead of once for
// each row of the result.
Value* separate_resampling(Graph& g, Node& node);
// Maxima over windows: the other axes first, which reads rows of neighbouring elements. Its result
// includes the padding of the last axis, so the second step has no borders.
Value* separate_maxima(Graph& g, Node& node);

}  // namespace gex::ops
