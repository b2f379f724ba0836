#include "passes/assign_layouts.hpp"

#include "ops/core/attributes.hpp"
#include "ops/core/problem_rule.hpp"

namespace gex::passes {

bool assign_layouts(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= assign_layouts(*subgraph, context);
    if (!ops::has_problem(node) || !is_float(node.output()->type().dtype)) continue;
    Value* value = node.output();
    if (value->type().strides || value->uses().size() != 1) continue;
    const Node* reader = value->uses()[0].node;
    if (reader == nullptr || !reader->is("transpose")) continue;
    // transpose: out axis i is in axis perm[i]; its result shall be dense.
    ops::Ints perm = reader->as<ops::Transpose>().perm;
    std::vector<Dim> dense = dense_strides(reader->output()->type().shape);
    Type type = value->type();
    type.strides.emplace(perm.size());
    for (std::size_t i = 0; i < perm.size(); ++i)
      (*type.strides)[static_cast<std::size_t>(perm[i])] = dense[i];
    value->set_type(std::move(type));
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace gex::passes
