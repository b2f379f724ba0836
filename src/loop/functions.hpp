#pragma once
// Classes of primitives: columns of math.def.

#include "loop/kernel.hpp"

namespace gex::loop {

// exp, sin, pow, erf and the like: a dozen instructions or more, and rounded by each backend in its
// own way.
bool is_function(Prim prim);
// Of one element, in cycles, roughly.
int cost_of(Prim prim);

}  // namespace gex::loop
