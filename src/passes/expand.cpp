#include "passes/expand.hpp"

#include "ir/label_propagation.hpp"
#include "ops/core/problem_rule.hpp"

namespace gex::passes {

bool expand_composites(Graph& graph, PassContext& context) {
  bool changed = false;
  // Expansions may contain composites: new nodes are inserted before the current node, so continue
  // from there.
  for (Node* node = graph.first(); node != nullptr;) {
    for (const auto& subgraph : node->subgraphs()) changed |= expand_composites(*subgraph, context);
    Node* next = node->next();
    if (node->op().expand && !ops::has_problem(*node)) {
      Node* before = node->prev();
      LabelPropagation labels(graph, node);
      std::vector<Value*> results;
      {
        InsertBefore here(graph, node);
        graph.set_location(node->location());
        results = node->op().expand(graph, *node);
        graph.set_location({});
      }
      GEX_CHECK(results.size() == node->num_outputs(), "expansion of ", node->op().name);
      for (std::size_t k = 0; k < results.size(); ++k) {
        if (!node->output(k)->uses().empty()) graph.replace_all_uses(node->output(k), results[k]);
      }
      labels.apply(*node);
      next = before ? before->next() : graph.first();
      if (next == node) next = node->next();
      graph.erase(node);
      context.count();
      changed = true;
    }
    node = next;
  }
  return changed;
}

}  // namespace gex::passes
