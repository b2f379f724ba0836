#pragma once
// Functions for the codes of a Program on the CPU, generic and specialised for hot sizes.

#include <memory>

#include "backend/backend.hpp"

namespace gex::backend::cpu {

CompiledCode compile_for_cpu(std::shared_ptr<const program::Program> program,
                             const CodeOptions& options);

}  // namespace gex::backend::cpu
