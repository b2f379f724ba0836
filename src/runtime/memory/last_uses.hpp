#pragma once
// Last uses of call results, and of inputs whose release is reported to the host.

#include "runtime/session/image.hpp"

namespace gex::runtime {

// Both need the segment layout and the lifetimes.
void place_releases(Image& image);
void find_input_ends(Image& image);

}  // namespace gex::runtime
