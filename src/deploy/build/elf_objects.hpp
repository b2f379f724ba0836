#pragma once
// Links the relocatable objects that the code generator writes into one CodeImage. All relocations
// except the addresses of C functions are resolved here.

#include "backend/cpu/generator.hpp"
#include "deploy/code_image.hpp"

namespace gex::deploy {

// UserError(unsupported) if code calls a function that the loader does not know.
CodeImage link_objects(const codegen::KernelObjects& objects);

}  // namespace gex::deploy
