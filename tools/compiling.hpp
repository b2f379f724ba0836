#pragma once
// The options that every command that compiles a graph has.

#include <initializer_list>
#include <vector>

#include "arguments.hpp"
#include "compile/options.hpp"
#include "runtime/session/session.hpp"

namespace gex::tool {

// The options set by the command line's flags. `level_option` is the flag of option `level`, for
// commands that use --level for something else.
UserOptions user_options(const Arguments& arguments, std::string_view level_option = "--level");
CompileOptions compile_options(const Arguments& arguments,
                               std::string_view level_option = "--level");

// With the compile cache of the environment, for commands that run what they compile.
CompileOptions cached(CompileOptions options);

runtime::SessionOptions session_options(const Arguments& arguments);

// `own`, then the flags of these options, for commands that have only a few of them.
std::vector<Option> with_flags_of(std::initializer_list<std::string_view> options,
                                  std::vector<Option> own);
// `own`, then the flags of all options of parts `compile` and `session`.
std::vector<Option> with_compile_options(std::vector<Option> own,
                                         std::string_view level_option = "--level");
// `own`, then --input, --dim and --seed.
std::vector<Option> with_input_options(std::vector<Option> own);

}  // namespace gex::tool
