#pragma once
// Code made from the kernel texts of a program, for files whose machine code is not trusted. The
// implementation depends on the library: libgex compiles them (build/text_code.cpp), libgex_run
// interprets them (run_only/text_code.cpp).

#include <memory>
#include <string>

#include "program/executable.hpp"
#include "program/specialiser.hpp"

namespace gex::deploy {

struct TextCode {
  program::Executable executable;
  std::shared_ptr<program::Specialiser> specialiser;  // may be null
  std::string generator;                              // for reports
};

// UserError(unsupported) if the library has no kernels for the processor of this machine.
void check_processor();

TextCode code_of_text(std::shared_ptr<const program::Program> program, bool fast_math,
                      bool autotune);

}  // namespace gex::deploy
