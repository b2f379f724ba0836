#include "passes/dce.hpp"

namespace gex::passes {

bool eliminate_dead_code(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node* node = graph.last(); node != nullptr;) {
    Node* before = node->prev();
    bool used = !node->op().has(Trait::pure);
    for (std::size_t k = 0; k < node->num_outputs(); ++k) used |= !node->output(k)->uses().empty();
    if (!used) {
      graph.erase(node);
      context.count();
      changed = true;
    } else {
      for (const auto& subgraph : node->subgraphs())
        changed |= eliminate_dead_code(*subgraph, context);
    }
    node = before;
  }
  return changed;
}

}  // namespace gex::passes
