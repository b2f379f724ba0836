#pragma once
// The table of all options of a compile (gex/options.def), for callers that set options by name:
// the C interface, the command, Python.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compile/compile.hpp"
#include "runtime/session/session.hpp"

namespace gex {

// Options that neither compile() nor a Session reads; their callers do.
struct ApiOptions {
#define GEX_API_FIELD_compile(name, type, value)
#define GEX_API_FIELD_session(name, type, value)
#define GEX_API_FIELD_api(name, type, value) type name = value;
#define GEX_OPTION(part, name, type, value, help, about) GEX_API_FIELD_##part(name, type, value)
#include "gex/options.def"
#undef GEX_API_FIELD_compile
#undef GEX_API_FIELD_session
#undef GEX_API_FIELD_api
};

// One for each part of the table.
struct UserOptions {
  CompileOptions compile;
  runtime::SessionOptions session;
  ApiOptions api;
};

// Properties of an option besides its type, default and help.
struct OptionAbout {
  // How the cache key of a program depends on it.
  enum class Key : std::uint8_t {
    value,  // by its value
    apart,  // by something else, see add_to_key: `key_reason` says what
    none    // not at all: `key_reason` says why
  };
  Key key = Key::value;
  std::string_view key_reason;
  std::int64_t lowest = std::numeric_limits<std::int64_t>::min();  // of numbers
  std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  std::string_view flag_name, value_name, variable;
  std::string_view torch_name, torch_instead;
  std::string_view npugraph_ex_name;
  bool npugraph_ex_is_inverted = false;

  constexpr OptionAbout range(std::int64_t low, std::int64_t high) const {
    OptionAbout about = *this;
    about.lowest = low;
    about.highest = high;
    return about;
  }
  constexpr OptionAbout at_least(std::int64_t low) const {
    return range(low, std::numeric_limits<std::int64_t>::max());
  }
  // The command's flag, if it is not --name or --no-name. Options may share one.
  constexpr OptionAbout flag(std::string_view text) const {
    OptionAbout about = *this;
    about.flag_name = text;
    return about;
  }
  // The placeholder of its value in help texts.
  constexpr OptionAbout value(std::string_view text) const {
    OptionAbout about = *this;
    about.value_name = text;
    return about;
  }
  // An environment variable that sets it for the whole process.
  constexpr OptionAbout environment(std::string_view text) const {
    OptionAbout about = *this;
    about.variable = text;
    return about;
  }
  // Backend `gex` of torch.compile: its name there, or what determines it instead.
  constexpr OptionAbout torch(std::string_view text) const {
    OptionAbout about = *this;
    about.torch_name = text;
    return about;
  }
  constexpr OptionAbout not_in_torch(std::string_view instead) const {
    OptionAbout about = *this;
    about.torch_instead = instead;
    return about;
  }
  // Backend `npugraph_ex` has only the options that are named here.
  constexpr OptionAbout npugraph_ex(std::string_view text) const {
    OptionAbout about = *this;
    about.npugraph_ex_name = text;
    return about;
  }
  constexpr OptionAbout npugraph_ex_inverted(std::string_view text) const {
    OptionAbout about = npugraph_ex(text);
    about.npugraph_ex_is_inverted = true;
    return about;
  }
};

using OptionValue = std::variant<bool, std::int64_t, std::string, std::vector<std::string>>;

// One row of the table.
struct OptionRow {
  enum class Part : std::uint8_t { compile, session, api };
  Part part;
  std::string_view name, help;
  OptionAbout about;
  OptionValue default_value;  // its type is the option's
  OptionValue (*get)(const UserOptions& options);
  // UserError for a value of another type or out of range.
  void (*set)(UserOptions& options, const OptionValue& value);

  bool is_switch() const { return std::holds_alternative<bool>(default_value); }
  std::string flag() const;        // "--level"; "--no-fuse" for switches that are on by default
  std::string value_name() const;  // "0..3"; "" for switches
  std::string type_name() const;   // "bool", "int", "str", "names"
};

std::span<const OptionRow> option_table();
const OptionRow& find_option(std::string_view name);  // UserError with the nearest name

// "true", "3", "a,b": what set_option reads.
std::string text_of(const OptionValue& value);
// UserError if there is no such option, or the text is not a valid value.
void set_option(UserOptions& options, std::string_view name, std::string_view text);
// A line for each option: name, type, default, help.
std::string list_options();

}  // namespace gex
