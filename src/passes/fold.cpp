#include "passes/fold.hpp"

#include <algorithm>
#include <unordered_set>

#include "interp/interp.hpp"
#include "ops/core/build.hpp"
#include "passes/fold_large.hpp"

namespace gex::passes {
namespace {

bool is_generated(const Value* v) {
  return v->producer() != nullptr && v->producer()->op().has(Trait::constant) &&
         v->producer()->inputs().empty();
}

// Whether the user marked a node as not to be folded.
bool is_kept(const Node& node) {
  const AttrValue* label = find_label(node.labels(), "_do_not_constant_folding");
  return label != nullptr && !attr_equal(*label, AttrValue(false));
}

// Small, with all sizes known: an unknown size times 0 is also 0.
bool is_small(const Type& type, std::int64_t limit) {
  const bool known =
      std::all_of(type.shape.begin(), type.shape.end(), [](Dim size) { return size.is_const(); });
  return known && type.numel().constant() <= limit;
}

// Views cost nothing: only those with no more elements than the constant they read are worth a
// constant of their own.
bool is_part_of_list(const Node& view) {
  const Value* x = view.input(0);
  return view.inputs().size() == 1 && x->producer() != nullptr && x->producer()->is("constant") &&
         known_le(view.output()->type().numel(), x->type().numel()) == true;
}

// A view of a constant with one repeated value is that value in another shape.
bool refill(Graph& graph, Node& node) {
  if (!node.op().has(Trait::view) || node.inputs().size() != 1 || is_kept(node)) return false;
  const Node* full = node.input(0)->producer();
  if (full == nullptr || !full->is("full") || node.output()->type().strides) return false;
  InsertBefore here(graph, &node);
  const Type& type = node.output()->type();
  graph.replace_all_uses(node.output(),
                         ops::full(graph, type.dtype, full->as<ops::Full>().value, type.shape));
  return true;
}

// Whether an attribute contains a size known only at run time.
bool waits_for_sizes(const Node& node) {
  const auto open = [](Dim size) { return !size.is_const(); };
  return std::any_of(node.attrs().begin(), node.attrs().end(), [&](const AttrValue& attr) {
    if (const Dim* size = std::get_if<Dim>(&attr)) return open(*size);
    const auto* sizes = std::get_if<std::vector<Dim>>(&attr);
    return sizes != nullptr && std::any_of(sizes->begin(), sizes->end(), open);
  });
}

bool can_fold(const Node& node, std::int64_t limit) {
  if (!may_be_computed(node)) return false;
  if (node.op().has(Trait::view) && !is_part_of_list(node)) return false;
  for (const Value* input : node.inputs()) {
    if (input != nullptr && (!is_generated(input) || !is_small(input->type(), limit))) return false;
  }
  for (std::size_t k = 0; k < node.num_outputs(); ++k) {
    if (!is_small(node.output(k)->type(), limit)) return false;
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

bool may_be_computed(const Node& node) {
  const OpDef& op = node.op();
  if (!op.has(Trait::pure) || op.has(Trait::random) || op.has(Trait::constant)) return false;
  if (is_kept(node) || waits_for_sizes(node)) return false;
  if (!op.body && !op.expand) return false;
  return !node.inputs().empty() && node.subgraphs().empty();
}

void erase_with_orphans(Graph& graph, Node& node) {
  const std::vector<Value*> inputs(node.inputs().begin(), node.inputs().end());
  graph.erase(&node);
  std::unordered_set<Node*> orphans;
  for (const Value* input : inputs)
    if (input != nullptr && input->uses().empty() && is_generated(input))
      orphans.insert(input->producer());
  for (Node* orphan : orphans) graph.erase(orphan);
}

bool fold_constants(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= fold_constants(*subgraph, context);
    if (refill(graph, node)) {
      erase_with_orphans(graph, node);
      context.count();
      changed = true;
      continue;
    }
    if (!can_fold(node, context.settings().fold_limit)) continue;
    std::vector<HostTensor> values = evaluate(node);
    InsertBefore here(graph, &node);
    for (std::size_t k = 0; k < values.size(); ++k) {
      Value* constant = ops::constant(graph, std::move(values[k]));
      constant->set_type(node.output(k)->type());
      graph.replace_all_uses(node.output(k), constant);
    }
    erase_with_orphans(graph, node);
    context.count();
    changed = true;
  }
  return fold_large(graph, context) || changed;
}

}  // namespace gex::passes
