#include <unordered_set>

#include "ir/graph.hpp"

namespace gex {
namespace {

class SymbolCollector {
 public:
  void add(Dim d) {
    if (!d.is_const() && seen_.insert(d).second) d.collect_symbols(symbols);
  }
  void add(const std::vector<Dim>& dims) {
    for (Dim d : dims) add(d);
  }
  void add(const Type& type) {
    add(type.shape);
    if (type.strides) add(*type.strides);
  }
  void add_inputs(const Graph& graph) {
    for (const auto& input : graph.inputs()) add(input->type());
  }
  void add_all(const Graph& graph) {
    add_inputs(graph);
    for (const Node& node : graph.nodes()) {
      for (const AttrValue& value : node.attrs()) {
        if (const auto* dim = std::get_if<Dim>(&value)) add(*dim);
        if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) add(*dims);
      }
      for (const auto& sub : node.subgraphs()) add_all(*sub);
      for (std::size_t i = 0; i < node.num_outputs(); ++i) add(node.output(i)->type());
    }
  }

  std::vector<Dim> symbols;

 private:
  std::unordered_set<Dim> seen_;
};

}  // namespace

std::vector<Dim> symbols_of(const Graph& graph) {
  SymbolCollector collector;
  collector.add_inputs(graph);
  return std::move(collector.symbols);
}

std::vector<Dim> symbols_told_by_inputs(const Graph& graph) {
  SymbolCollector collector;
  auto add_symbols = [&](const std::vector<Dim>& dims) {
    for (Dim d : dims) {
      if (d.is_symbol()) collector.add(d);
    }
  };
  for (const auto& input : graph.inputs()) {
    add_symbols(input->type().shape);
    if (input->type().strides) add_symbols(*input->type().strides);
  }
  return std::move(collector.symbols);
}

std::vector<Dim> all_symbols_of(const Graph& graph) {
  SymbolCollector collector;
  collector.add_all(graph);
  return std::move(collector.symbols);
}

}  // namespace gex
