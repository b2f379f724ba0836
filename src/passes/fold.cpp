#include "passes/fold.hpp"

#include "interp/interp.hpp"
#include "ops/build.hpp"

namespace gex::passes {
namespace {

constexpr std::int64_t kMaxElements = 4096;

bool is_generated(const Value* v) {
  return v->producer() != nullptr && v->producer()->op().has(Trait::constant) &&
         v->producer()->inputs().empty();
}

// Small and of known size.
bool is_small(const Type& type) {
  std::optional<std::int64_t> numel = type.numel().as_const();
  return numel && *numel <= kMaxElements;
}

bool can_fold(const Node& node) {
  const OpDef& op = node.op();
  if (!op.has(Trait::pure) || op.has(Trait::random) || op.has(Trait::constant) ||
      op.has(Trait::view))
    return false;
  if (!op.body && !op.expand) return false;
  if (node.inputs().empty() || !node.subgraphs().empty()) return false;
  for (const Value* input : node.inputs()) {
    if (input != nullptr && (!is_generated(input) || !is_small(input->type()))) return false;
  }
  for (std::size_t k = 0; k < node.num_outputs(); ++k) {
    if (!is_small(node.output(k)->type())) return false;
  }
  return true;
}

std::vector<HostTensor> evaluate(const Node& node) {
  Graph graph("fold");
  std::vector<Value*> inputs;
  for (const Value* input : node.inputs()) {
    inputs.push_back(input == nullptr ? nullptr
                                      : graph.clone_node(*input->producer(), {})
                                            ->output(static_cast<std::size_t>(input->index())));
  }
  Node* copy = graph.clone_node(node, inputs);
  for (std::size_t k = 0; k < copy->num_outputs(); ++k) graph.add_output(copy->output(k));
  return interp::interpret(graph, {});
}

}  // namespace

bool fold_constants(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= fold_constants(*subgraph, context);
    if (!can_fold(node)) continue;
    std::vector<HostTensor> values = evaluate(node);
    InsertBefore here(graph, &node);
    for (std::size_t k = 0; k < values.size(); ++k) {
      Value* constant = ops::constant(graph, std::move(values[k]));
      constant->set_type(node.output(k)->type());
      graph.replace_all_uses(node.output(k), constant);
    }
    graph.erase(&node);
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace gex::passes
