#pragma once
// Elementwise producers of a problem's operand, computed where its kernel would read them.

#include <string>
#include <unordered_set>
#include <vector>

#include "lower/cluster.hpp"

namespace gex::lower {

// The operands (by number) that the kernel of this node can take from a prologue; empty if the node
// is not a problem.
std::vector<int> computable_operands(const Node& problem);

// The value whose elements, in dense order from the first, are the operand's; null if the kernel
// can't compute them.
Value* computable_value(const Node& problem, int operand);

// Whether computing the elements as often as the kernel reads them costs less than storing and
// loading them once. `nodes` compute the value.
bool prologue_pays(const Node& problem, int operand, const std::vector<const Node*>& nodes,
                   const CostModel& costs);

// The kernel that computes the value: parameters are its inputs and one output of the accumulator
// dtype, over the value's dense grid.
LoweredCluster lower_prologue(const Node& problem, const ClusterPrologue& prologue,
                              const std::unordered_set<const Value*>& in_memory,
                              const FuseOptions& options);

}  // namespace gex::lower
