#pragma once
// From the relocatable objects that the code generator writes to one CodeImage: all relocations
// are resolved here but the addresses of C functions.

#include "backend/cpu/generator.hpp"
#include "deploy/code_image.hpp"

namespace gex::deploy {

// UserError(unsupported) if code calls a function that the loader does not know.
CodeImage link_objects(const codegen::KernelObjects& objects);

}  // namespace gex::deploy
