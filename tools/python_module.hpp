#pragma once

#include <string>
#include <vector>

namespace gex::tool {

// Replaces the process by `python -m module words...`. Returns only by UserError if Python is
// missing.
int run_python_module(const std::string& module, const std::vector<std::string>& words);

}  // namespace gex::tool
