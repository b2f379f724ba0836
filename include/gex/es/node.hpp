#pragma once
// Adds nodes and constants to a graph under construction; scopes add labels and order.

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gex/es/holder.hpp"

namespace gex::es {

namespace detail {

struct Scopes {
  std::vector<Attrs> labels;  // outermost first: inner ones win
  std::vector<std::vector<EsTensorHolder>> sources;
  static Scopes& OfThisThread() {
    static thread_local Scopes scopes;
    return scopes;
  }
  void ApplyTo(EsTensorHolder made) const {
    for (const Attrs& attrs : labels)
      for (const Attr& label : attrs) made.SetAttrForNode(label);
    for (const auto& before : sources) {
      // A branch is a separate graph; its nodes are not ordered with those around it.
      std::vector<EsTensorHolder> same_graph;
      for (const EsTensorHolder& source : before)
        if (Access::BuildingOf(source) == Access::BuildingOf(made)) same_graph.push_back(source);
      made.AddControlEdge(same_graph);
    }
  }
};

}  // namespace detail

// Nodes created by this thread during its lifetime get these labels: AttrScope s{{"a", "1"}}.
// Scopes nest; inner ones win.
class AttrScope {
 public:
  AttrScope(std::initializer_list<Attr> labels) {
    detail::Scopes::OfThisThread().labels.emplace_back(labels);
  }
  ~AttrScope() { detail::Scopes::OfThisThread().labels.pop_back(); }
  AttrScope(const AttrScope&) = delete;
  AttrScope& operator=(const AttrScope&) = delete;
};

// Nodes created by this thread during its lifetime are ordered after those of `sources`.
class ControlDependencyScope {
 public:
  ControlDependencyScope(std::initializer_list<EsTensorHolder> sources) {
    detail::Scopes::OfThisThread().sources.emplace_back(sources);
  }
  ~ControlDependencyScope() { detail::Scopes::OfThisThread().sources.pop_back(); }
  ControlDependencyScope(const ControlDependencyScope&) = delete;
  ControlDependencyScope& operator=(const ControlDependencyScope&) = delete;
};

namespace detail {

// `result_count` absent: the op's number of results. The call owns subgraphs that it takes.
inline std::vector<EsTensorHolder> AddNode(const BuildingPtr& building, const std::string& op,
                                           const std::vector<EsTensorHolder>& inputs,
                                           const Attrs& attrs,
                                           std::optional<std::size_t> result_count,
                                           const std::vector<const gex_graph*>& subgraphs = {},
                                           bool take_subgraphs = false) {
  gex_graph* graph = building->open();
  std::vector<gex_value> operands;
  for (const EsTensorHolder& input : inputs) {
    if (!input.empty() && Access::BuildingOf(input) != building)
      throw Error(GEX_INVALID_ARGUMENT, op + ": operands of two builders, '" + building->name +
                                            "' and '" + Access::BuildingOf(input)->name + "'");
    operands.push_back(input.value());
  }
  std::vector<Attr::Backing> backing(attrs.size());
  std::vector<gex_attr> c_attrs;
  for (std::size_t k = 0; k < attrs.size(); ++k) c_attrs.push_back(attrs[k].c(backing[k]));
  gex_node node = GEX_NODE_INIT;
  node.op = op.c_str();
  node.inputs = operands.data();
  node.input_count = operands.size();
  node.attrs = c_attrs.data();
  node.attr_count = c_attrs.size();
  node.subgraphs = subgraphs.data();
  node.subgraph_count = subgraphs.size();
  node.take_subgraphs = take_subgraphs ? 1 : 0;

  constexpr std::size_t most = 4096;
  std::vector<gex_value> values(result_count.value_or(most));
  std::size_t count = values.size();
  Check(result_count ? gex_graph_add_node(graph, &node, values.data(), values.size())
                     : gex_graph_add_node_counted(graph, &node, values.data(), most, &count));
  std::vector<EsTensorHolder> results;
  for (std::size_t k = 0; k < count; ++k) results.push_back(Access::Holder(building, values[k]));
  if (!results.empty()) Scopes::OfThisThread().ApplyTo(results[0]);
  return results;
}

inline EsTensorHolder AddConstant(const BuildingPtr& building, const Tensor& tensor, DType dtype) {
  const gex_tensor elements = tensor.c();
  gex_value value = GEX_NO_VALUE;
  Check(gex_graph_constant(building->open(), &elements, static_cast<gex_dtype>(dtype), &value));
  EsTensorHolder made = Access::Holder(building, value);
  Scopes::OfThisThread().ApplyTo(made);
  return made;
}

}  // namespace detail

}  // namespace gex::es
