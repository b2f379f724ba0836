#pragma once
// How much memory this machine has.

#include <cstddef>

namespace gex {

// Memory and swap together. Systems that promise more than they have hand out any size and end the
// process when it is used, so larger requests are refused before they are made.
std::size_t total_memory();

}  // namespace gex
