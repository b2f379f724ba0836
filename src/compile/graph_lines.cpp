#include "compile/graph_lines.hpp"

#include <cctype>
#include <unordered_map>

#include "base/error.hpp"

namespace gex {

namespace {

constexpr std::size_t kLongestAttributes = 400;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  GraphLines read() {
    skip_space();
    while (at("symbols")) to_line_end();
    read_graph(-1);
    return std::move(out_);
  }

 private:
  using Names = std::unordered_map<std::string, int>;

  void read_graph(int parent) {
    expect("graph");
    std::string name = peek() == '"' ? quoted() : peek() == '(' ? std::string() : word();
    Names names;
    expect("(");
    while (!take(")")) {
      const int value = add_value(names, value_name(), -1);
      expect(":");
      out_.values[index(value)].type = type();
      if (parent < 0) out_.inputs.push_back(value);
      take(",");
    }
    if (parent < 0) out_.name = std::move(name);
    while (peek() != '{') skip_item();  // result types, ties, labels
    expect("{");
    while (!take("return")) read_node(names, parent);
    while (!take("}")) {
      const auto found = names.find(value_name());
      if (parent < 0 && found != names.end()) out_.outputs.push_back(found->second);
      take(",");
    }
  }

  void read_node(Names& names, int parent) {
    const auto number = static_cast<int>(out_.nodes.size());
    out_.nodes.emplace_back().parent = parent;
    std::vector<std::string> results;
    while (peek() == '%') {
      results.push_back(value_name());
      if (!take(",")) expect("=");
    }
    std::string op = word();
    std::vector<int> inputs;
    expect("(");
    while (!take(")")) {
      if (take("none")) {
        inputs.push_back(-1);
      } else {
        const auto found = names.find(value_name());
        inputs.push_back(found == names.end() ? -1 : found->second);
      }
      take(",");
    }
    std::string attributes;
    if (peek() == '{') attributes = bracketed();
    if (take("labels")) attributes += " labels" + bracketed();
    if (take("regions")) {
      expect("(");
      while (!take(")")) {
        read_graph(number);
        take(",");
      }
    }
    NodeLine& node = out_.nodes[index(number)];
    node.op = std::move(op);
    node.inputs = std::move(inputs);
    node.attributes = attributes.substr(0, kLongestAttributes);
    for (const std::string& result : results)
      node.outputs.push_back(add_value(names, result, number));
    if (take(":")) read_types(node);
    if (take("@")) out_.nodes[index(number)].location = quoted();
  }

  void read_types(const NodeLine& node) {
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      out_.values[index(node.outputs[k])].type = type();
      take(",");
    }
  }

  int add_value(Names& names, const std::string& name, int producer) {
    const auto value = static_cast<int>(out_.values.size());
    out_.values.push_back({name, "", producer});
    names[name] = value;
    return value;
  }

  static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool at(std::string_view word) const { return text_.substr(at_).starts_with(word); }

  bool take(std::string_view word) {
    if (!at(word)) return false;
    at_ += word.size();
    skip_space();
    return true;
  }

  void expect(std::string_view word) {
    if (!take(word))
      fail(ErrorCode::parse_error, "the text of a graph has no '", word, "' at character ", at_);
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  void to_line_end() {
    at_ = std::min(text_.find('\n', at_), text_.size());
    skip_space();
  }

  std::string value_name() {
    expect("%");
    return word();
  }

  std::string word() {
    const std::size_t begin = at_;
    const auto is_part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    };
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    std::string found(text_.substr(begin, at_ - begin));
    if (found.empty())
      fail(ErrorCode::parse_error, "the text of a graph has no name at character ", at_);
    skip_space();
    return found;
  }

  // "f32[s0, 4]{4, 1}" or "token".
  std::string type() {
    const std::size_t begin = at_;
    word();
    if (peek() == '[') bracketed();
    std::size_t end = at_;
    if (peek() == '{') {
      bracketed();
      end = at_;
    }
    while (end > begin && std::isspace(static_cast<unsigned char>(text_[end - 1]))) --end;
    return std::string(text_.substr(begin, end - begin));
  }

  std::string quoted() {
    std::string out;
    if (peek() != '"') expect("\"");
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      out += text_[at_];
    }
    ++at_;
    skip_space();
    return out;
  }

  // From an opening bracket to the matching closing one, both included.
  std::string bracketed() {
    const std::size_t begin = at_;
    int depth = 0;
    do {
      const char c = peek();
      if (c == '\0') fail(ErrorCode::parse_error, "the text of a graph ends inside a bracket");
      if (c == '"') {
        quoted();
        continue;
      }
      depth += c == '{' || c == '(' || c == '[' ? 1 : c == '}' || c == ')' || c == ']' ? -1 : 0;
      ++at_;
    } while (depth > 0);
    std::string found(text_.substr(begin, at_ - begin));
    skip_space();
    return found;
  }

  void skip_item() {
    if (peek() == '(')
      bracketed();
    else if (peek() == '"')
      quoted();
    else if (peek() == '\0')
      fail(ErrorCode::parse_error, "the text of a graph has no body");
    else {
      ++at_;
      skip_space();
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  GraphLines out_;
};

}  // namespace

GraphLines read_lines(std::string_view text) { return Reader(text).read(); }

}  // namespace gex
