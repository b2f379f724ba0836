#pragma once
// Constants as numbers, for rules that look for a 1, a 0 or a scale.

#include <optional>

#include "ir/graph.hpp"

namespace gex::passes {

// The number that all elements of a value equal, if known from the graph.
std::optional<double> splat(const Value* v);

// The elements of a constant; nothing for other values and for constants of unknown size.
std::optional<HostTensor> constant_value(const Value& v);

// Whether two constants have the same dtype, shape and bits, whatever op makes them.
bool same_constant(const Node& a, const Node& b);

}  // namespace gex::passes
