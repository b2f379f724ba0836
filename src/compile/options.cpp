#include "compile/options.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <type_traits>

#include "base/digest.hpp"
#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/suggest.hpp"

namespace gex {
namespace {

using Part = OptionRow::Part;
using Names = std::vector<std::string>;

// How a line of the table begins its last column.
constexpr OptionAbout in_key() { return {}; }
constexpr OptionAbout key_by(std::string_view what) {
  OptionAbout about;
  about.key = OptionAbout::Key::apart;
  about.key_reason = what;
  return about;
}
constexpr OptionAbout not_in_key(std::string_view why) {
  OptionAbout about;
  about.key = OptionAbout::Key::none;
  about.key_reason = why;
  return about;
}

template <class T>
OptionValue to_value(const T& field) {
  if constexpr (std::is_same_v<T, int>)
    return std::int64_t{field};
  else
    return field;
}

[[noreturn]] void refuse(std::string_view name, const std::string& wanted,
                         const std::string& given) {
  fail(ErrorCode::invalid_argument, "option '", name, "' takes ", wanted, ", got '", given, "'");
}

std::string wanted_number(const OptionAbout& about) {
  using Limits = std::numeric_limits<std::int64_t>;
  if (about.lowest == Limits::min()) return "a whole number";
  if (about.highest == Limits::max()) return str("a whole number of at least ", about.lowest);
  return str("a whole number from ", about.lowest, " to ", about.highest);
}

template <class T>
T from_value(std::string_view name, const OptionAbout& about, const OptionValue& value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr || *number < about.lowest || *number > about.highest)
      refuse(name, wanted_number(about), text_of(value));
    return static_cast<T>(*number);
  } else {
    if (const T* given = std::get_if<T>(&value)) return *given;
    if constexpr (std::is_same_v<T, bool>) refuse(name, "true or false", text_of(value));
    if constexpr (std::is_same_v<T, std::string>) refuse(name, "a text", text_of(value));
    refuse(name, "a list of names", text_of(value));
  }
}

std::vector<OptionRow> make_table() {
  const UserOptions defaults;
  std::vector<OptionRow> rows;
#define GEX_OPTION(part, name, type, value, help, about)                                        \
  rows.push_back({Part::part, #name, help, about, to_value<type>(defaults.part.name),           \
                  [](const UserOptions& options) { return to_value<type>(options.part.name); }, \
                  [](UserOptions& options, const OptionValue& given) {                          \
                    options.part.name = from_value<type>(#name, about, given);                  \
                  }});
#include "gex/options.def"
  return rows;
}

std::optional<bool> switch_in(std::string_view text) {
  if (text == "true" || text == "1" || text == "on") return true;
  if (text == "false" || text == "0" || text == "off") return false;
  return std::nullopt;
}

Names names_in(std::string_view text) {
  Names names;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) names.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

OptionValue parse(const OptionRow& row, std::string_view text) {
  if (std::holds_alternative<bool>(row.default_value)) {
    if (const auto on = switch_in(text)) return *on;
  } else if (std::holds_alternative<std::int64_t>(row.default_value)) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
  } else if (std::holds_alternative<Names>(row.default_value)) {
    return names_in(text);
  }
  return std::string(text);  // switches and numbers reject it with their own message
}

}  // namespace

std::string OptionRow::flag() const {
  if (!about.flag_name.empty()) return std::string(about.flag_name);
  const bool* is_on = std::get_if<bool>(&default_value);
  std::string text = is_on != nullptr && *is_on ? "--no-" : "--";
  text += name;
  std::ranges::replace(text, '_', '-');
  return text;
}

std::string OptionRow::value_name() const {
  if (!about.value_name.empty()) return std::string(about.value_name);
  if (is_switch()) return "";
  if (std::holds_alternative<Names>(default_value)) return "a,b";
  const bool has_range = about.highest != std::numeric_limits<std::int64_t>::max();
  if (has_range) return str(about.lowest, "..", about.highest);
  return std::holds_alternative<std::string>(default_value) ? "TEXT" : "N";
}

std::string OptionRow::type_name() const {
  constexpr const char* kNames[] = {"bool", "int", "str", "names"};
  return kNames[default_value.index()];
}

std::span<const OptionRow> option_table() {
  static const std::vector<OptionRow>* const table = new std::vector<OptionRow>(make_table());
  return *table;
}

const OptionRow& find_option(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OptionRow& row : option_table()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  std::string all;
  for (std::string_view each : names) all += str(all.empty() ? "" : ", ", each);
  const std::string nearest = suggestion(name, names);
  fail(ErrorCode::invalid_argument, "there is no option '", name, "'",
       nearest.empty() ? "." : nearest, " Options are: ", all);
}

std::string text_of(const OptionValue& value) {
  if (const bool* is_on = std::get_if<bool>(&value)) return *is_on ? "true" : "false";
  if (const std::int64_t* number = std::get_if<std::int64_t>(&value)) return str(*number);
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  std::string all;
  for (const std::string& name : std::get<Names>(value)) all += str(all.empty() ? "" : ",", name);
  return all;
}

void set_option(UserOptions& options, std::string_view name, std::string_view text) {
  const OptionRow& row = find_option(name);
  row.set(options, parse(row, text));
}

std::string list_options() {
  std::string lines;
  for (const OptionRow& row : option_table()) {
    lines +=
        str(row.name, ": ", row.type_name(), " = ", text_of(row.default_value), "  ", row.help);
    if (!row.about.variable.empty()) lines += str(" (environment: ", row.about.variable, ")");
    lines += "\n";
  }
  return lines;
}

bool keeps_subnormals(const CompileOptions& options) {
  return options.keep_subnormals || switch_in_environment("GEX_KEEP_SUBNORMALS").value_or(false);
}

bool allows_winograd(const CompileOptions& options) {
  return options.winograd && switch_in_environment("GEX_WINOGRAD").value_or(true);
}

bool makes_super_kernels(const CompileOptions& options) {
  return options.super_kernel || switch_in_environment("GEX_SUPER_KERNEL").value_or(false);
}

bool repeats_launches(const CompileOptions& options) {
  return !makes_super_kernels(options) &&
         switch_in_environment("GEX_REPEAT_LAUNCHES").value_or(false);
}

void add_to_key(Digester& key, const CompileOptions& options) {
  UserOptions all;
  all.compile = options;
  for (const OptionRow& row : option_table()) {
    if (row.about.key != OptionAbout::Key::value) continue;
    const OptionValue value = row.get(all);
    key.add(row.name).add(text_of(value));
    if (const Names* names = std::get_if<Names>(&value))  // a name may have a comma in it
      key.add(static_cast<std::int64_t>(names->size()));
  }
}

}  // namespace gex
