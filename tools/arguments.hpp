#pragma once
// Command lines: options are declared once, and parsing, help and suggestions use the declaration.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gex::tool {

struct Option {
  std::string name;   // "--seed"
  std::string value;  // placeholder of the value in help: "N"; empty: a flag
  std::string help;
};

struct Command {
  std::string name;
  std::string synopsis;  // after "gex name"
  std::string summary;   // one line
  std::string details;
  std::vector<Option> options;
  std::size_t most_files = 1;
  int (*run)(const class Arguments& arguments) = nullptr;
  // Replaces `run` for commands that parse their arguments themselves.
  int (*run_words)(const std::vector<std::string>& words) = nullptr;
  // What file() is, for the error if it is missing.
  const char* first = "a file (or - for standard input)";
};

class Arguments {
 public:
  // UserError with the closest option for unknown ones. Accepts both --a=b and --a b.
  Arguments(const Command& command, const std::vector<std::string>& words);

  bool has(std::string_view option) const;
  std::optional<std::string> value(std::string_view option) const;  // the last one given
  std::vector<std::string> values(std::string_view option) const;
  std::optional<std::int64_t> integer(std::string_view option) const;
  std::vector<std::string> list(std::string_view option) const;  // a,b,c
  // name=value pairs of a repeated option.
  std::vector<std::pair<std::string, std::string>> pairs(std::string_view option) const;
  const std::vector<std::string>& files() const { return files_; }
  const std::string& file() const;  // the only one; UserError if there is none

 private:
  const Command& command_;
  std::vector<std::pair<std::string, std::string>> given_;
  std::vector<std::string> files_;
};

std::int64_t to_integer(std::string_view text, std::string_view what);
std::string help_of(const Command& command);

}  // namespace gex::tool
