#include "passes/engine/switches.hpp"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/file_problem.hpp"
#include "base/suggest.hpp"

namespace gex::passes {
namespace {

constexpr std::string_view kAll = "ALL";

bool on_or_off(std::string_view word, std::string_view name, std::string_view where) {
  if (word == "on") return true;
  if (word == "off") return false;
  fail(ErrorCode::parse_error, where, ": ", name, " is \"", word, "\"; a switch must be on or off");
}

std::string_view trimmed(std::string_view text) {
  auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Nested objects whose leaves are "on" or "off"; names of sections are ignored.
class SwitchFile {
 public:
  SwitchFile(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  SwitchList read() {
    object();
    skip_space();
    if (at_ != text_.size()) error("unexpected text after the last '}'");
    return std::move(list_);
  }

 private:
  void object() {
    expect('{');
    if (accept('}')) return;
    do {
      const std::string name = string();
      expect(':');
      skip_space();
      if (at_ < text_.size() && text_[at_] == '{') {
        object();
      } else {
        list_[name] = on_or_off(string(), name, where_);
      }
    } while (accept(','));
    expect('}');
  }

  std::string string() {
    expect('"');
    const std::size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) error("a string is not terminated");
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) error(str("expected '", c, "'"));
  }
  [[noreturn]] void error(const std::string& what) const {
    std::size_t line = 1;
    for (char c : text_.substr(0, at_)) line += c == '\n';
    fail(ErrorCode::parse_error, where_, ":", line, ": ", what,
         R"(; a switch file reads {"Switch": {"GraphFusion": {"ALL": "on", "fold": "off"}}})");
  }

  std::string_view text_, where_;
  std::size_t at_ = 0;
  SwitchList list_;
};

const char* environment(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

}  // namespace

const Pass& find_pass(const std::vector<Pass>& passes, std::string_view name) {
  std::vector<std::string_view> names;
  std::string known;
  for (const Pass& pass : passes) {
    if (pass.name == name) return pass;
    names.push_back(pass.name);
    known += (known.empty() ? "" : ", ") + pass.name;
  }
  fail(ErrorCode::not_found, "unknown pass \"", name, "\"", suggestion(name, names),
       " Known passes: ", known);
}

SwitchList parse_switches(std::string_view text, std::string_view where) {
  SwitchList list;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const std::string_view entry = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (entry.empty()) continue;
    const std::size_t colon = entry.rfind(':');
    if (colon == std::string_view::npos)
      fail(ErrorCode::parse_error, where, ": \"", entry,
           "\" is not a switch; write name:on or name:off");
    const std::string_view name = trimmed(entry.substr(0, colon));
    list[std::string(name)] = on_or_off(trimmed(entry.substr(colon + 1)), name, where);
  }
  return list;
}

SwitchList read_switch_file(const std::string& path) {
  if (is_device(path))
    fail(ErrorCode::io_error, "can't read the switch file ", path, ": it is a device, not a file");
  errno = 0;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file)
    fail(ErrorCode::io_error, "can't read the switch file ", path, ": ", file_problem(path, errno));
  return SwitchFile(text.view(), path).read();
}

Switches::Switches(const PipelineOptions& options, const std::vector<Pass>& known)
    : level_(options.level) {
  SwitchList given;
  for (const std::string& name : options.enabled) given[name] = true;
  for (const std::string& name : options.disabled) {
    if (given.contains(name))
      fail(ErrorCode::invalid_argument, "pass ", name, " is both enabled and disabled");
    given[name] = false;
  }
  lists_.push_back(std::move(given));
  if (const char* text = environment("GEX_PASSES"))
    lists_.push_back(parse_switches(text, "GEX_PASSES"));
  if (!options.switch_file.empty()) {
    lists_.push_back(read_switch_file(options.switch_file));
  } else if (const char* path = environment("GEX_PASS_FILE")) {
    lists_.push_back(read_switch_file(path));
  }
  for (const SwitchList& list : lists_)
    for (const auto& [name, on] : list)
      if (name != kAll) find_pass(known, name);
}

bool Switches::on(const Pass& pass) const {
  for (const SwitchList& list : lists_) {
    if (auto named = list.find(pass.name); named != list.end()) return named->second;
    if (auto all = list.find(kAll); all != list.end() && pass.level > 0) return all->second;
  }
  return pass.level <= level_;
}

}  // namespace gex::passes
