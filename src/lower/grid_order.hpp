#pragma once
// The order of a loop kernel's grid axes. Backends run neighbouring points of the last axis side by
// side, so they should be neighbours in memory: in images whose channels are last in memory, but
// not in the shape, the channels.

#include "loop/kernel.hpp"

namespace gex::lower {

// Moves another axis to the end if loads and stores are much cheaper along it. Each point computes
// the same as before.
void order_grid(loop::Kernel& kernel);

}  // namespace gex::lower
