#pragma once

#include "arguments.hpp"

namespace gex::tool {

Command opt_command();
Command run_command();
Command dump_command();
Command bench_command();
Command explain_command();
Command reduce_command();
Command fuzz_command();
Command ops_command();
Command diff_command();
Command bisect_command();
Command cache_command();
Command compile_command();
Command inspect_command();
Command update_command();
Command serve_command();
Command report_command();
Command profile_command();
Command doctor_command();
Command completion_command();
Command top_command();

// In the order of the overview; defined in main.cpp.
const std::vector<Command>& all_commands();

}  // namespace gex::tool
