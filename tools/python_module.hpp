#pragma once

#include <string>
#include <vector>

namespace gex::tool {

// Becomes `python -m module words...`. Returns only by UserError: there is no Python to be found.
int run_python_module(const std::string& module, const std::vector<std::string>& words);

}  // namespace gex::tool
