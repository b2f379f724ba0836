#pragma once
// Identifies the build of a library: files written by one build must not be used by another.

#include <string>

namespace gex {

// The linker's build id of the library or program that contains this address; without one, its path
// and modification time.
std::string build_id_at(const void* address);

}  // namespace gex
