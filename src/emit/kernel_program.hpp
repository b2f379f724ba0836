#pragma once
// A Program of one launch, made from a loop kernel, so that a kernel's text can be run alone.

#include "loop/kernel.hpp"
#include "program/program.hpp"
#include "target/target.hpp"

namespace gex::emit {

// Parameters `in` and `inout` are inputs, `out` are outputs, by name and in order. Size symbols
// that no input has are integer inputs after them.
program::Program program_of_kernel(const loop::Kernel& kernel, const Target& target);

}  // namespace gex::emit
