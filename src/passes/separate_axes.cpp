#include "passes/separate_axes.hpp"

#include "ir/label_propagation.hpp"
#include "ops/core/separable.hpp"

namespace gex::passes {

namespace {

Value* in_steps(Graph& graph, Node& node) {
  if (Value* result = ops::separate_resampling(graph, node)) return result;
  return ops::separate_maxima(graph, node);
}

bool separate(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= separate(*subgraph, context);
    LabelPropagation labels(graph, &node);
    const InsertBefore here(graph, &node);
    graph.set_location(node.location());
    Value* result = in_steps(graph, node);
    graph.set_location({});
    if (result == nullptr) continue;
    labels.apply(node);
    graph.replace_all_uses(node.output(), result);  // takes over a promised layout
    graph.erase(&node);
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace

Pass separate_axes() {
  return {"separate-axes", "resamples and finds maxima of windows one axis after the other",
          Stage::late, 2, separate};
}

}  // namespace gex::passes
