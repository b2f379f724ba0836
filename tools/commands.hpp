#pragma once

#include "arguments.hpp"

namespace gex::tool {

Command opt_command();
Command run_command();
Command dump_command();
Command ops_command();

// --level=N or its kin, 0 .. 3.
int optimisation_level(const Arguments& arguments, std::string_view option);

}  // namespace gex::tool
