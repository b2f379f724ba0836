#pragma once
// A Program from its text, which is all that is needed to run it.

#include <memory>
#include <string_view>

#include "backend/backend.hpp"

namespace gex {

// Code for the target that the Program names. UserError(invalid_graph) if it is not well-formed.
backend::CompiledCode compile_program(program::Program program,
                                      const backend::CodeOptions& options = {});

// Parses the text and compiles its codes for the target that it names. UserError(parse_error) has
// the position of the error.
std::shared_ptr<const program::Executable> compile_program_text(std::string_view text);

}  // namespace gex
