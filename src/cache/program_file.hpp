#pragma once
// A compiled program as one file, for another process with the same build of gex on the same kind
// of processor. Neither the graph nor the passes and ops that made it are needed there.

#include <string>

#include "compile/compile.hpp"

namespace gex {

// UserError: the file can't be written, or the program has frozen memory of the caller.
void save_program_file(const Compiled& compiled, const std::string& path);

// Only run-time options are used. UserError: there is no such file, it is damaged, or not for this
// build or processor.
Compiled load_program_file(const std::string& path, CompileOptions options = {});

}  // namespace gex
