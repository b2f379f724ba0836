#pragma once
// Which nodes are computed as a problem (src/problems).

#include "ir/graph.hpp"

namespace gex::ops {

// Ops with a loop body are problems for floats and run as plain loops on integers. Ops without one
// have a problem for every dtype, because they are expanded only if there is none.
inline bool has_problem(const Node& node) {
  return node.op().has(Trait::contraction) &&
         (!node.op().body || is_float(node.output()->type().dtype));
}

}  // namespace gex::ops
