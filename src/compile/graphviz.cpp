#include "compile/graphviz.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "compile/graph_lines.hpp"
#include "program/step_names.hpp"

namespace gex {
namespace {

constexpr std::size_t kLongestLabel = 120;

// One digraph. Boxes are numbered by the caller, inputs by their values.
class Dot {
 public:
  explicit Dot(std::string_view name) {
    out_ = str("digraph ", quoted(name), " {\n  node [shape=box, fontname=\"sans-serif\"];\n");
  }

  void box(int number, std::string_view label, std::string_view more, int depth = 0) {
    indent(depth);
    out_ += str("n", number, " [label=", quoted(label, more), "];\n");
  }
  void input(int value, std::string_view name, std::string_view type) {
    indent(0);
    out_ += str("v", value, " [shape=ellipse, label=", quoted(name, type), "];\n");
  }
  void edge(int from, int to) {
    if (from != to && edges_.emplace(from, to).second)
      after_ += str("  n", from, " -> n", to, ";\n");
  }
  void edge_from_input(int value, int to) { after_ += str("  v", value, " -> n", to, ";\n"); }
  void open_cluster(int number, int depth) {
    indent(depth);
    out_ += str("subgraph cluster_", number, " {\n");
  }
  void close_cluster(int depth) {
    indent(depth);
    out_ += "}\n";
  }
  std::string take() { return std::move(out_) + after_ + "}\n"; }

 private:
  void indent(int depth) { out_.append(static_cast<std::size_t>(2 + 2 * depth), ' '); }

  // A label of one or two lines.
  static std::string quoted(std::string_view text, std::string_view second = {}) {
    std::string out = "\"";
    append(out, text);
    if (!second.empty()) {
      out += "\\n";
      append(out, second);
    }
    return out + '"';
  }
  static void append(std::string& out, std::string_view text) {
    for (const char c : text.substr(0, kLongestLabel)) {
      if (c == '"' || c == '\\') out += '\\';
      out += c == '\n' ? ' ' : c;
    }
    if (text.size() > kLongestLabel) out += "...";
  }

  std::string out_, after_;
  std::set<std::pair<int, int>> edges_;
};

class GraphDrawing {
 public:
  explicit GraphDrawing(const GraphLines& lines) : lines_(lines), dot_(lines.name) {
    children_.resize(lines.nodes.size());
    for (std::size_t n = 0; n < lines.nodes.size(); ++n)
      if (const int parent = lines.nodes[n].parent; parent >= 0)
        children_[static_cast<std::size_t>(parent)].push_back(static_cast<int>(n));
  }

  std::string draw() {
    for (std::size_t v = 0; v < lines_.values.size(); ++v)
      if (lines_.values[v].producer < 0)
        dot_.input(static_cast<int>(v), "%" + lines_.values[v].name, lines_.values[v].type);
    for (std::size_t n = 0; n < lines_.nodes.size(); ++n)
      if (lines_.nodes[n].parent < 0) draw(static_cast<int>(n), 0);
    return dot_.take();
  }

 private:
  void draw(int number, int depth) {
    const NodeLine& node = lines_.nodes[static_cast<std::size_t>(number)];
    const ValueLine* result =
        node.outputs.empty() ? nullptr : &lines_.values[static_cast<std::size_t>(node.outputs[0])];
    dot_.box(number, node.op, result == nullptr ? "" : result->type, depth);
    for (const int value : node.inputs) {
      if (value < 0) continue;
      const int producer = lines_.values[static_cast<std::size_t>(value)].producer;
      if (producer < 0)
        dot_.edge_from_input(value, number);
      else
        dot_.edge(producer, number);
    }
    const std::vector<int>& inside = children_[static_cast<std::size_t>(number)];
    if (inside.empty()) return;
    dot_.open_cluster(number, depth);
    for (const int child : inside) draw(child, depth + 1);
    dot_.close_cluster(depth);
  }

  const GraphLines& lines_;
  Dot dot_;
  std::vector<std::vector<int>> children_;
};

}  // namespace

std::string graphviz_of_graph(std::string_view graph_text) {
  return GraphDrawing(read_lines(graph_text)).draw();
}

std::string graphviz_of_kernels(const CompileReport& report) {
  const GraphLines lines = read_lines(report.graph_text);
  const std::vector<Origins::Unit>& units = report.origins.units;
  std::set<int> shown;  // constants and views have no step
  for (const std::vector<int>& segment : report.origins.unit_of_step)
    shown.insert(segment.begin(), segment.end());
  shown.erase(-1);
  std::vector<int> unit_of(lines.nodes.size(), -1);
  Dot dot(lines.name);
  for (const int u : shown) {
    const Origins::Unit& unit = units[static_cast<std::size_t>(u)];
    dot.box(u, unit.label, unit.kind);
    for (const int node : unit.nodes)
      if (node >= 0) unit_of[static_cast<std::size_t>(node)] = u;
  }
  // By node: the units that its results come from.
  std::vector<std::set<int>> sources(lines.nodes.size());
  for (std::size_t n = 0; n < lines.nodes.size(); ++n) {
    std::set<int> read;
    for (const int value : lines.nodes[n].inputs) {
      const int producer = value < 0 ? -1 : lines.values[static_cast<std::size_t>(value)].producer;
      if (producer >= 0) read.merge(std::set<int>(sources[static_cast<std::size_t>(producer)]));
    }
    if (unit_of[n] >= 0) {
      for (const int from : read) dot.edge(from, unit_of[n]);
      read = {unit_of[n]};
    }
    sources[n] = std::move(read);
  }
  return dot.take();
}

std::string graphviz_of_program(const program::Program& program) {
  Dot dot(program.name);
  std::unordered_map<program::BufferId, int> writers;
  int number = 0;
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    const bool is_main = std::ranges::find(program.main, static_cast<int>(s)) != program.main.end();
    if (!is_main) dot.open_cluster(static_cast<int>(s), 0);
    for (const program::Step& step : program.segments[s].steps) {
      dot.box(number, program::name_of(step), step.location, is_main ? 0 : 1);
      for (const program::BufferId id : program::reads_of(step))
        if (const auto found = writers.find(program::root_of(program, id)); found != writers.end())
          dot.edge(found->second, number);
      for (const program::BufferId id : program::writes_of(step))
        writers[program::root_of(program, id)] = number;
      ++number;
    }
    if (!is_main) dot.close_cluster(0);
  }
  return dot.take();
}

std::string graphviz_of(const CompileReport& report, const program::Program& program,
                        std::string_view level) {
  if (level == "graph") return graphviz_of_graph(report.graph_text);
  if (level == "kernels") return graphviz_of_kernels(report);
  if (level == "program") return graphviz_of_program(program);
  fail(ErrorCode::invalid_argument, "unknown level '", level, "'; use graph, kernels or program");
}

}  // namespace gex
