#pragma once
// Which nodes a Choice of src/backend/cpu/kernels computes.

#include "ir/graph.hpp"

namespace gex::ops {

// Ops with a loop body have Choices for floats and run as plain loops on integers. Ops without one
// are expanded only where there is no Choice, so theirs takes every dtype.
inline bool has_choice(const Node& node) {
  return node.op().has(Trait::contraction) &&
         (!node.op().body || is_float(node.output()->type().dtype));
}

}  // namespace gex::ops
