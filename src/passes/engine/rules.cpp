#include "passes/engine/rules.hpp"

#include <algorithm>

#include "ir/label_propagation.hpp"

namespace gex::passes {
namespace {

bool is_graph_output(const Node& node) {
  return std::ranges::any_of(node.output()->uses(),
                             [](const Use& use) { return use.node == nullptr; });
}

}  // namespace

Node* producer_of(const Value* value, std::string_view op_name) {
  Node* node = value->producer();
  return node != nullptr && node->is(op_name) ? node : nullptr;
}

bool apply_rules(Graph& graph, PassContext& context, std::span<const Rule> rules) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= apply_rules(*subgraph, context, rules);
    if (!node.op().has(Trait::pure) || node.num_outputs() != 1) continue;
    // A layout promised for a graph output belongs to this value: it can't be transferred.
    const bool promised = is_graph_output(node);
    if (promised && node.output()->type().strides) continue;
    for (Rule rule : rules) {
      LabelPropagation labels(graph, &node);
      InsertBefore here(graph, &node);
      graph.set_location(node.location());
      Value* simpler = rule(graph, node);
      graph.set_location({});
      if (simpler == nullptr) continue;
      if (promised && simpler->type().strides) continue;
      labels.apply(node);
      graph.replace_all_uses(node.output(), simpler);
      graph.erase(&node);
      context.count();
      changed = true;
      break;
    }
  }
  return changed;
}

}  // namespace gex::passes
