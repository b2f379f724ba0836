#pragma once
// A Program from its text, which is all that is needed to run it.

#include <memory>
#include <string_view>

#include "program/executable.hpp"

namespace gex {

// Parses the text and compiles its codes for the target that it names. UserError(parse_error) has
// the position of the error.
std::shared_ptr<const program::Executable> compile_program_text(std::string_view text);

}  // namespace gex
