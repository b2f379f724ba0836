#pragma once
// Which primitives are functions of mathematics rather than instructions of a processor.

#include "loop/kernel.hpp"

namespace gex::loop {

// exp, sin, pow, erf and the like: a dozen instructions or more, and rounded by each backend in its
// own way.
bool is_function(Prim prim);

}  // namespace gex::loop
