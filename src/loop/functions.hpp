#pragma once
// Primitives that are mathematical functions rather than single instructions.

#include "loop/kernel.hpp"

namespace gex::loop {

// exp, sin, pow, erf and the like: a dozen instructions or more, with rounding that differs between
// backends.
bool is_function(Prim prim);

}  // namespace gex::loop
