#include "compiling.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cache/store.hpp"

namespace gex::tool {

int optimisation_level(const Arguments& arguments, std::string_view option) {
  const std::int64_t level = arguments.integer(option).value_or(2);
  if (level < 0 || level > 3)
    fail(ErrorCode::invalid_argument, option, " is 0, 1, 2 or 3, got ", level);
  return static_cast<int>(level);
}

CompileOptions compile_options(const Arguments& arguments, std::string_view level_option) {
  CompileOptions options;
  options.level = optimisation_level(arguments, level_option);
  options.disabled_passes = arguments.list("--disable");
  options.fuse = !arguments.has("--no-fuse");
  options.prologues = !arguments.has("--no-prologues");
  options.overwrite_temps = options.write_ties_in_place = !arguments.has("--no-in-place");
  options.autotune = arguments.has("--autotune");
  const std::int64_t streams = arguments.integer("--streams").value_or(0);
  // compile() says which numbers there may be; nothing it would take is cut off here.
  options.streams = static_cast<int>(std::clamp<std::int64_t>(streams, -1, 1 << 20));
  return options;
}

CompileOptions cached(CompileOptions options) {
  options.cache = Store::from_environment();
  return options;
}

runtime::SessionOptions session_options(const Arguments& arguments) {
  runtime::SessionOptions options;
  options.reuse_memory = !arguments.has("--no-reuse");
  return options;
}

std::vector<Option> with_compile_options(std::vector<Option> own, std::string_view level_option) {
  own.push_back({std::string(level_option), "0..3", "which passes run (2)"});
  own.push_back({"--disable", "a,b", "passes that are left out"});
  own.push_back({"--no-fuse", "", "every node its own kernel"});
  own.push_back({"--no-prologues", "", "operands of products lie in memory"});
  own.push_back({"--no-reuse", "", "temporaries never share memory"});
  own.push_back({"--no-in-place", "", "results never take the place of what is read no more"});
  own.push_back({"--autotune", "", "ways to compute products are measured once sizes are hot"});
  own.push_back({"--streams", "N", "independent launches are spread over N streams"});
  return own;
}

std::vector<Option> with_input_options(std::vector<Option> own) {
  own.push_back({"--input", "NAME=SOURCE", "where an input comes from; may be repeated"});
  own.push_back({"--dim", "SYMBOL=N", "a size that no .npy file tells; may be repeated"});
  own.push_back({"--seed", "N", "of the random inputs (0)"});
  return own;
}

}  // namespace gex::tool
