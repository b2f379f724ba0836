#include "passes/inline_control.hpp"

#include "ir/label_propagation.hpp"
#include "passes/splat.hpp"

namespace gex::passes {
namespace {

// The branch that is taken, if known.
const Graph* taken_branch(const Node& node) {
  const std::optional<double> condition = splat(node.input(0));
  return condition ? node.subgraphs()[*condition != 0 ? 0 : 1].get() : nullptr;
}

bool never_runs(const Node& loop) {
  const std::optional<double> condition = splat(loop.subgraphs()[0]->outputs()[0]);
  return condition && *condition == 0;
}

// A value passed through unchanged may have another layout than was promised for the result.
bool can_stand_for(const Graph& graph, const Value* result, const Value* value) {
  return !result->type().strides && graph.can_replace(result, value);
}

bool can_inline(const Graph& graph, const Node& node, const Graph& branch) {
  for (std::size_t k = 0; k < node.num_outputs(); ++k) {
    const Value* value = branch.outputs()[k];
    if (value->is_input()) value = node.input(1 + static_cast<std::size_t>(value->index()));
    if (!can_stand_for(graph, node.output(k), value)) return false;
  }
  return true;
}

bool remove(Graph& graph, Node& node) {
  std::vector<Value*> results;
  if (node.is("if")) {
    const Graph* branch = taken_branch(node);
    if (branch == nullptr || !can_inline(graph, node, *branch)) return false;
    LabelPropagation labels(graph, &node);
    InsertBefore here(graph, &node);
    results = graph.inline_graph(*branch, node.inputs().subspan(1));
    labels.apply(node);
  } else {
    if (!never_runs(node)) return false;
    results.assign(node.inputs().begin(),
                   node.inputs().begin() + static_cast<std::ptrdiff_t>(node.num_outputs()));
    for (std::size_t k = 0; k < results.size(); ++k)
      if (!can_stand_for(graph, node.output(k), results[k])) return false;
  }
  for (std::size_t k = 0; k < results.size(); ++k)
    graph.replace_all_uses(node.output(k), results[k]);
  graph.erase(&node);
  return true;
}

}  // namespace

bool inline_control(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= inline_control(*subgraph, context);
    if (!node.is("if") && !node.is("while")) continue;
    if (!remove(graph, node)) continue;
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace gex::passes
