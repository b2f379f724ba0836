#include <unordered_map>
#include <unordered_set>

#include "ir/check_node.hpp"

namespace gex {
namespace {

// The symbols of a graph and its subgraphs: in the text form a symbol is identified by its name.
class KnownSymbols {
 public:
  // The error in the sizes; empty if there is none.
  std::string problem(Dim d) {
    if (d.is_const() || !sound_.insert(d).second) return {};
    std::vector<Dim> symbols;
    d.collect_symbols(symbols);
    for (Dim symbol : symbols) {
      if (symbol.extent()) return str("'", symbol, "' is a loop index, not a size");
      auto [it, is_new] = by_name_.emplace(symbol.name(), symbol);
      if (!is_new && it->second != symbol)
        return str("the symbol ", symbol.name(), " appears with two different ranges");
    }
    return {};
  }
  std::string problem(const std::vector<Dim>& dims) {
    for (Dim d : dims)
      if (std::string found = problem(d); !found.empty()) return found;
    return {};
  }
  std::string problem(const AttrValue& value) {
    if (const auto* dim = std::get_if<Dim>(&value)) return problem(*dim);
    if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) return problem(*dims);
    return {};
  }
  std::string problem(const Type& type) {
    if (type.strides && type.strides->size() != type.shape.size())
      return str(type.strides->size(), " strides for ", type.shape.size(), " sizes");
    for (Dim d : type.shape)
      if (known_lt(d, Dim(0)) == true) return str("the size ", d, " is negative");
    std::string found = problem(type.shape);
    return found.empty() && type.strides ? problem(*type.strides) : found;
  }

 private:
  std::unordered_map<std::string, Dim> by_name_;
  std::unordered_set<Dim> sound_;
};

enum class Depth { level, all };

class Verifier {
 public:
  Verifier(const Graph& graph, KnownSymbols& symbols, Depth depth)
      : graph_(graph), symbols_(symbols), depth_(depth) {}

  void run() {
    for (const Node& node : graph_.nodes()) {
      all_nodes_.insert(&node);
      if (all_nodes_.size() > graph_.num_nodes()) break;
    }
    if (all_nodes_.size() != graph_.num_nodes())
      wrong("the node list", str(graph_.num_nodes(), " nodes"), str(all_nodes_.size(), " in it"));
    check_signature();
    const Node* previous = nullptr;
    for (const Node& node : graph_.nodes()) {
      if (node.prev() != previous || &node.graph() != &graph_)
        wrong(node, "a node linked to its neighbours and its graph", "broken links");
      check_node(node);
      previous = &node;
    }
    if (graph_.last() != previous) wrong("the node list", "its last node at its end", "another");
    check_outputs();
    check_uses();
    check_ties();
  }

 private:
  [[noreturn]] void wrong(const std::string& where, const std::string& expected,
                          const std::string& found) const {
    fail(ErrorCode::invalid_graph, "graph '", graph_.name(), "', ", where, ": expected ", expected,
         ", found ", found);
  }
  [[noreturn]] void wrong(const Node& node, const std::string& expected,
                          const std::string& found) const {
    std::string at = node.location().empty() ? "" : str(" (at ", node.location(), ")");
    wrong(str("node `", print_node(node), "`", at), expected, found);
  }

  void check_signature() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value& input = *graph_.inputs()[i];
      std::string where = str("input ", i);
      if (!input.is_input() || &input.graph() != &graph_ || input.index() != static_cast<int>(i))
        wrong(where, str("an input of this graph with index ", i), "other links");
      if (std::string problem = symbols_.problem(input.type()); !problem.empty())
        wrong(where, "a valid type", str(input.type(), ": ", problem));
      defined_.insert(&input);
    }
  }

  void check_node(const Node& node) {
    for (std::size_t i = 0; i < node.inputs().size(); ++i) check_input(node, i);
    try {
      check_inputs(node.op(), node.inputs());
      check_attrs(node.op(), node.attrs());
    } catch (const UserError& error) {
      wrong(node, "a node that matches the op's definition", error.what());
    }
    for (const AttrValue& value : node.attrs())
      if (std::string problem = symbols_.problem(value); !problem.empty())
        wrong(node, "valid sizes in attributes", problem);
    for (const auto& sub : node.subgraphs()) {
      if (sub == nullptr) wrong(node, "subgraphs", "a null one");
      if (depth_ == Depth::level) continue;
      try {
        Verifier(*sub, symbols_, depth_).run();
      } catch (const UserError& error) {
        wrong(node, "valid subgraphs", error.what());
      }
    }
    check_types(node);
    for (std::size_t i = 0; i < node.num_outputs(); ++i) defined_.insert(node.output(i));
  }

  void check_input(const Node& node, std::size_t i) {
    const Value* value = node.input(i);
    if (value == nullptr) return;
    ++real_uses_;
    if (defined_.contains(value)) return;
    if (&value->graph() != &graph_)
      wrong(node, str("input ", i, " to be a value of this graph"),
            str("one of graph '", value->graph().name(), "'"));
    wrong(node, str("input ", i, " to be defined earlier"),
          value->producer() ? str("its producer ", value->producer()->op().name, " later")
                            : std::string("an input that the graph doesn't have"));
  }

  void check_types(const Node& node) {
    std::vector<Type> types;
    try {
      types = infer_types(node.op(), node.inputs(), node.attrs(), node.subgraphs());
    } catch (const UserError& error) {
      wrong(node, "inputs that the shape rule accepts", error.what());
    }
    if (types.size() != node.num_outputs())
      wrong(node, str(types.size(), " outputs by the shape rule"), str(node.num_outputs()));
    for (std::size_t i = 0; i < types.size(); ++i) {
      const Value& output = *node.output(i);
      if (output.producer() != &node || output.index() != static_cast<int>(i) ||
          &output.graph() != &graph_)
        wrong(node, str("output ", i, " linked to this node"), "other links");
      if (!same_data_type(types[i], output.type()))
        wrong(node, str("output ", i, " of type ", types[i], " by the shape rule"),
              output.type().text());
      if (std::string problem = symbols_.problem(output.type()); !problem.empty())
        wrong(node, "valid types", str(output.type(), ": ", problem));
    }
  }

  void check_outputs() {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Value* value = graph_.outputs()[i];
      if (value == nullptr || !defined_.contains(value))
        wrong(str("output ", i), "a value defined in this graph", value ? "another" : "null");
      ++real_uses_;
    }
  }

  void check_uses() {
    std::size_t listed = 0;
    for (const auto& input : graph_.inputs()) listed += check_uses_of(*input);
    for (const Node& node : graph_.nodes())
      for (std::size_t i = 0; i < node.num_outputs(); ++i) listed += check_uses_of(*node.output(i));
    // Every listed use is real and listed once, so equal counts mean that none is missing.
    if (listed != real_uses_) wrong("use lists", str(real_uses_, " uses"), str(listed, " listed"));
  }

  std::size_t check_uses_of(const Value& value) {
    auto wrong_here = [&](const std::string& expected, const std::string& found) {
      if (value.producer()) wrong(*value.producer(), expected, found);
      wrong(str("input ", value.index()), expected, found);
    };
    const std::string agreement = "use lists that agree with inputs and outputs";
    for (const Use& use : value.uses()) {
      if (use.node != nullptr && !all_nodes_.contains(use.node))
        wrong_here(agreement, "a use by a node that is not in the graph");
      std::size_t places = use.node ? use.node->inputs().size() : graph_.outputs().size();
      auto index = static_cast<std::size_t>(use.index);
      if (use.index < 0 || index >= places)
        wrong_here(agreement, "a use with an index out of range");
      if ((use.node ? use.node->input(index) : graph_.outputs()[index]) != &value)
        wrong_here(agreement, "a use at the position of another value");
      if (!uses_.insert({use.node, use.index}).second) wrong_here(agreement, "a use listed twice");
    }
    if (value.type().is_token() && value.uses().size() > 1)
      wrong_here("a token to be used at most once", str(value.uses().size(), " uses"));
    return value.uses().size();
  }

  void check_ties() {
    std::unordered_set<int> outputs, inputs;
    for (const Tie& tie : graph_.ties()) {
      if (std::string problem = tie_problem(graph_, tie); !problem.empty())
        wrong("ties", "ties in range and of equal type", problem);
      if (!outputs.insert(tie.output).second)
        wrong("ties", "each output tied once", str("output ", tie.output, " tied twice"));
      if (!inputs.insert(tie.input).second)
        wrong("ties", "each input tied once", str("input ", tie.input, " tied twice"));
    }
  }

  struct UseKey {
    const Node* node;
    int index;
    bool operator==(const UseKey&) const = default;
  };
  struct UseKeyHash {
    std::size_t operator()(const UseKey& key) const {
      return hash_combine(reinterpret_cast<std::uintptr_t>(key.node), static_cast<Hash>(key.index));
    }
  };

  const Graph& graph_;
  KnownSymbols& symbols_;
  const Depth depth_;
  std::unordered_set<const Node*> all_nodes_;
  std::unordered_set<const Value*> defined_;
  std::unordered_set<UseKey, UseKeyHash> uses_;
  std::size_t real_uses_ = 0;
};

// Before anything recurses into the subgraphs.
void check_depth(const Graph& graph) {
  std::vector<const Graph*> level = {&graph};
  for (int depth = 0; !level.empty(); ++depth) {
    if (depth > kDeepestSubgraph)
      fail(ErrorCode::invalid_graph, "graph '", graph.name(), "': subgraphs are nested more than ",
           kDeepestSubgraph, " deep");
    std::vector<const Graph*> below;
    for (const Graph* outer : level)
      for (const Node& node : outer->nodes())
        for (const auto& sub : node.subgraphs())
          if (sub != nullptr) below.push_back(sub.get());
    level = std::move(below);
  }
}

}  // namespace

void verify(const Graph& graph) {
  check_depth(graph);
  KnownSymbols symbols;
  Verifier(graph, symbols, Depth::all).run();
}

void verify_level(const Graph& graph) {
  KnownSymbols symbols;
  Verifier(graph, symbols, Depth::level).run();
}

}  // namespace gex
