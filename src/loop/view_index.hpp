#pragma once
// Index maps of views, derived from their bodies.

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace gex::loop {

// The operand's index for an index of the view's output. Nothing if the node is not a pure index
// map on input 0 (a predicate, arithmetic, or several operands).
std::optional<std::vector<Dim>> view_operand_index(const Node& node, std::span<const Dim> index);

}  // namespace gex::loop
