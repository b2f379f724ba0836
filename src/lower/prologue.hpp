#pragma once
// Elementwise producers of a problem's operand, computed where its kernel would read them.

#include <string>
#include <unordered_set>
#include <vector>

#include "lower/cluster.hpp"

namespace gex::lower {

// The operands that the kernel of this node takes from a prologue, by their numbers; none if it is
// no problem.
std::vector<int> computable_operands(const Node& problem);

// The value whose elements the operand's are, in dense order and from its first one on; null if the
// kernel can't have them computed.
Value* computable_value(const Node& problem, int operand);

// Whether computing the elements as often as the kernel asks for them is less than writing and
// reading them once. `nodes` make the value.
bool prologue_pays(const Node& problem, int operand, const std::vector<const Node*>& nodes,
                   const CostModel& costs);

// The kernel that makes the value: parameters are its inputs and one output of the kernel's
// accumulator dtype, over the value's dense grid.
LoweredCluster lower_prologue(const Node& problem, const ClusterPrologue& prologue,
                              const std::unordered_set<const Value*>& in_memory,
                              const FuseOptions& options);

}  // namespace gex::lower
