#include "arguments.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/suggest.hpp"

namespace gex::tool {
namespace {

const Option& find(const Command& command, const std::string& name) {
  std::vector<std::string_view> names;
  for (const Option& option : command.options) {
    if (option.name == name) return option;
    names.push_back(option.name);
  }
  fail(ErrorCode::invalid_argument, "gex ", command.name, " has no option ", name,
       suggestion(name, names), " (gex help ", command.name, " lists them)");
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

// Lines of at most 100 columns; all but the first begin with `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent) {
  constexpr std::size_t kColumns = 100;
  std::string lines;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const bool is_first = column == indent;
    if (!is_first && column + 1 + end > kColumns) {
      lines += str("\n", std::string(indent, ' '));
      column = indent;
    } else if (!is_first) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::int64_t to_integer(std::string_view text, std::string_view what) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorCode::invalid_argument, what, " takes an integer, got '", text, "'");
  return number;
}

Arguments::Arguments(const Command& command, const std::vector<std::string>& words)
    : command_(command) {
  bool only_files = false;
  for (std::size_t k = 0; k < words.size(); ++k) {
    const std::string& word = words[k];
    if (only_files || word.size() < 2 || word[0] != '-') {
      files_.push_back(word);
      continue;
    }
    if (word == "--") {
      only_files = true;
      continue;
    }
    const auto equals = word.find('=');
    const Option& option = find(command, word.substr(0, equals));
    const bool has_value = equals != std::string::npos;
    if (option.value.empty()) {
      if (has_value) fail(ErrorCode::invalid_argument, option.name, " takes no value");
      given_.emplace_back(option.name, "");
    } else if (has_value) {
      given_.emplace_back(option.name, word.substr(equals + 1));
    } else if (k + 1 < words.size()) {
      given_.emplace_back(option.name, words[++k]);
    } else {
      fail(ErrorCode::invalid_argument, option.name, " needs a value: ", option.name, "=",
           option.value);
    }
  }
  if (files_.size() > command.most_files)
    fail(ErrorCode::invalid_argument, "gex ", command.name, " takes ", command.most_files,
         command.most_files == 1 ? " file" : " files", ", also got '", files_[command.most_files],
         "'");
}

bool Arguments::has(std::string_view option) const { return value(option).has_value(); }

std::vector<std::string> Arguments::values(std::string_view option) const {
  std::vector<std::string> found;
  for (const auto& [name, text] : given_)
    if (name == option) found.push_back(text);
  return found;
}

std::optional<std::string> Arguments::value(std::string_view option) const {
  std::vector<std::string> found = values(option);
  if (found.empty()) return std::nullopt;
  return found.back();
}

std::optional<std::int64_t> Arguments::integer(std::string_view option) const {
  const auto text = value(option);
  if (!text) return std::nullopt;
  return to_integer(*text, option);
}

std::vector<std::string> Arguments::list(std::string_view option) const {
  std::vector<std::string> parts;
  for (const std::string& text : values(option)) {
    std::size_t from = 0;
    while (from <= text.size()) {
      const std::size_t comma = std::min(text.find(',', from), text.size());
      if (comma > from) parts.push_back(text.substr(from, comma - from));
      from = comma + 1;
    }
  }
  return parts;
}

std::vector<std::pair<std::string, std::string>> Arguments::pairs(std::string_view option) const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& text : values(option)) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(ErrorCode::invalid_argument, option, " takes name=value, got '", text, "'");
    result.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

const std::string& Arguments::file() const {
  if (files_.empty())
    fail(ErrorCode::invalid_argument, "gex ", command_.name, " needs ", command_.first, ": gex ",
         command_.name, " ", command_.synopsis);
  return files_.front();
}

std::string help_of(const Command& command) {
  std::string text = str("gex ", command.name, ": ", command.summary, "\n\n  gex ", command.name,
                         " ", command.synopsis, "\n\n", command.details, "\n\nOptions:\n");
  const auto spelling = [](const Option& option) {
    return option.value.empty() ? option.name : option.name + "=" + option.value;
  };
  std::size_t width = 0;
  for (const Option& option : command.options) width = std::max(width, spelling(option).size());
  for (const Option& option : command.options)
    text += str("  ", padded(spelling(option), width), "  ", wrapped(option.help, width + 4), "\n");
  return text;
}

}  // namespace gex::tool
