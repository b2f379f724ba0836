#pragma once
// Constants as numbers, for rules that look for a 1, a 0 or a scale.

#include <optional>

#include "ir/graph.hpp"

namespace gex::passes {

// The number that every element of a value is, if it is known from the graph.
std::optional<double> splat(const Value* v);

}  // namespace gex::passes
