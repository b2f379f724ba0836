#include "compiling.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cache/store.hpp"

namespace gex::tool {

namespace {

using Part = OptionRow::Part;

Option flag_of(const OptionRow& row, std::string flag) {
  std::string help(row.help);
  if (const bool* on = std::get_if<bool>(&row.default_value); on != nullptr && *on)
    help = "turn off: " + help;
  if (const std::string text = text_of(row.default_value); !row.is_switch() && !text.empty())
    help += str(" (", text, ")");
  return {std::move(flag), row.value_name(), std::move(help)};
}

std::string flag_name(const OptionRow& row, std::string_view level_option) {
  return row.name == "level" ? std::string(level_option) : row.flag();
}

}  // namespace

UserOptions user_options(const Arguments& arguments, std::string_view level_option) {
  UserOptions options;
  for (const OptionRow& row : option_table()) {
    const std::string flag = flag_name(row, level_option);
    if (!arguments.has(flag)) continue;
    if (row.is_switch()) {
      row.set(options, !std::get<bool>(row.default_value));
    } else if (std::holds_alternative<std::vector<std::string>>(row.default_value)) {
      row.set(options, arguments.list(flag));
    } else {
      try {
        set_option(options, row.name, *arguments.value(flag));
      } catch (const UserError& error) {
        fail(error.code(), flag, ": ", error.what());
      }
    }
  }
  return options;
}

CompileOptions compile_options(const Arguments& arguments, std::string_view level_option) {
  return user_options(arguments, level_option).compile;
}

CompileOptions cached(CompileOptions options) {
  options.cache = Store::from_environment();
  return options;
}

runtime::SessionOptions session_options(const Arguments& arguments) {
  return user_options(arguments).session;
}

std::vector<Option> with_flags_of(std::initializer_list<std::string_view> options,
                                  std::vector<Option> own) {
  for (std::string_view name : options) {
    const OptionRow& row = find_option(name);
    own.push_back(flag_of(row, row.flag()));
  }
  return own;
}

std::vector<Option> with_compile_options(std::vector<Option> own, std::string_view level_option) {
  for (const OptionRow& row : option_table()) {
    if (row.part == Part::api) continue;
    std::string flag = flag_name(row, level_option);
    const auto shared = std::ranges::find(own, flag, &Option::name);
    if (shared == own.end())
      own.push_back(flag_of(row, std::move(flag)));
    else
      shared->help += str("; ", row.help);
  }
  return own;
}

std::vector<Option> with_input_options(std::vector<Option> own) {
  own.push_back({"--input", "NAME=SOURCE", "source of an input; may be repeated"});
  own.push_back({"--dim", "SYMBOL=N", "a size that no .npy file determines; may be repeated"});
  own.push_back({"--seed", "N", "seed of the random inputs (0)"});
  return own;
}

}  // namespace gex::tool
