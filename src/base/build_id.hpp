#pragma once
// Which build of a library this is: what one build wrote, another must not take for its own.

#include <string>

namespace gex {

// Of the library or program that holds this address: the linker's id, a hash of all it consists of.
// Without one, its path and the time it was written.
std::string build_id_at(const void* address);

}  // namespace gex
