#pragma once
// When what a run holds may go: results of calls, and inputs that the host wants to hear of.

#include "runtime/session/image.hpp"

namespace gex::runtime {

// Both need the layout of the segments and the lifetimes.
void place_releases(Image& image);
void find_input_ends(Image& image);

}  // namespace gex::runtime
