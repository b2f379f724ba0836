#pragma once
// The options that every command that compiles a graph has.

#include <vector>

#include "arguments.hpp"
#include "compile/compile.hpp"
#include "runtime/session/session.hpp"

namespace gex::tool {

// 0 .. 3; 2 if nothing is said.
int optimisation_level(const Arguments& arguments, std::string_view option = "--level");

CompileOptions compile_options(const Arguments& arguments,
                               std::string_view level_option = "--level");

// With the compile cache of the environment, for commands that run what they compile.
CompileOptions cached(CompileOptions options);

runtime::SessionOptions session_options(const Arguments& arguments);

// `own`, then --level, --disable, --no-fuse, --no-prologues and --no-reuse.
std::vector<Option> with_compile_options(std::vector<Option> own,
                                         std::string_view level_option = "--level");
// `own`, then --input, --dim and --seed.
std::vector<Option> with_input_options(std::vector<Option> own);

}  // namespace gex::tool
