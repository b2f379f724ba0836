#pragma once
// Classes of primitives: columns of math.def.

#include "loop/kernel.hpp"

namespace gex::loop {

// Primitives that are mathematical functions rather than single instructions (exp, sin, pow, erf):
// their rounding differs between backends.
bool is_function(Prim prim);
// Rough cost of one element in cycles.
int cost_of(Prim prim);

}  // namespace gex::loop
