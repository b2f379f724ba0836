#include "passes/engine/decompose_pass.hpp"

#include <unordered_set>

#include "ir/check_node.hpp"
#include "ir/label_propagation.hpp"

namespace gex::passes {
namespace {

using Ops = std::unordered_set<const OpDef*>;

void check_results(const Node& node, const std::vector<Value*>& values) {
  if (values.size() != node.num_outputs())
    fail(ErrorCode::invalid_argument, "the replacement of `", print_node(node), "` returns ",
         values.size(), " values for ", node.num_outputs(), " results");
  for (std::size_t k = 0; k < values.size(); ++k)
    if (values[k] == nullptr || !same_data_type(values[k]->type(), node.output(k)->type()))
      fail(ErrorCode::type_mismatch, "the replacement of `", print_node(node), "` returns ",
           values[k] ? values[k]->type().text() : "nothing", " for result ", k);
}

bool replace(Graph& graph, Node& node, const DecomposePass& pass) {
  LabelPropagation labels(graph, &node);
  InsertBefore here(graph, &node);
  graph.set_location(node.location());
  const std::vector<Value*> values = pass.replacement(graph, node);
  graph.set_location({});
  check_results(node, values);
  for (std::size_t k = 0; k < values.size(); ++k)
    if (!graph.can_replace(node.output(k), values[k])) return false;
  for (std::size_t k = 0; k < values.size(); ++k) graph.replace_all_uses(node.output(k), values[k]);
  labels.apply(node);
  graph.erase(&node);
  return true;
}

bool apply(Graph& graph, const Ops& ops, const DecomposePass& pass, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= apply(*subgraph, ops, pass, context);
    if (!ops.contains(&node.op())) continue;
    context.matched(1);
    if (pass.condition && !pass.condition(node)) continue;
    changed = true;  // even if the result can't be used, nodes were added
    if (replace(graph, node, pass)) context.count();
  }
  return changed;
}

}  // namespace

Pass decompose_pass(DecomposePass description) {
  auto ops = std::make_shared<Ops>();
  for (const std::string& name : description.ops) ops->insert(&op(name));
  if (ops->empty())
    fail(ErrorCode::invalid_argument, "pass ", description.name, " does not name an op to replace");
  auto shared = std::make_shared<const DecomposePass>(std::move(description));
  Pass pass;
  pass.name = shared->name;
  pass.summary = shared->summary;
  pass.stage = shared->stage;
  pass.level = shared->level;
  pass.run = [ops, shared](Graph& graph, PassContext& context) {
    return apply(graph, *ops, *shared, context);
  };
  return pass;
}

}  // namespace gex::passes
