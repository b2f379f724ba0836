#include "passes/transposed_convolutions.hpp"

#include "ops/core/problem_rule.hpp"

namespace gex::passes {

namespace {

// Fewer output channels fill no vectors.
constexpr std::int64_t kFewestChannels = 8;

bool is_view_of_frozen(const Value* value, const PassContext& context) {
  while (value->producer() != nullptr && value->producer()->op().has(Trait::view))
    value = value->producer()->input(0);
  return context.is_frozen(value);
}

// The kernel packs other weights for each image, which takes less time than the sums that the
// expansion adds up for each pixel if there are many pixels for each channel.
bool packing_pays(const Node& node) {
  constexpr std::int64_t kPixels = 7, kChannels = 4;
  const Shape& x = node.input(0)->type().shape;
  const auto pixels = (x[2] * x[3]).as_const(), channels = x[1].as_const();
  return pixels && channels && *channels * kChannels <= *pixels * kPixels;
}

bool is_selected(const Node& node, const PassContext& context) {
  if (!node.is("conv_transpose2d")) return false;
  const Value* weight = node.input(1);
  return (is_view_of_frozen(weight, context) || packing_pays(node)) &&
         ops::has_transposed_kernel(node) &&
         known_le(kFewestChannels, weight->type().shape[1]) == true;
}

bool select_in(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node* node = graph.first(); node != nullptr;) {
    for (const auto& subgraph : node->subgraphs()) changed |= select_in(*subgraph, context);
    Node* next = node->next();
    if (is_selected(*node, context)) {
      Value* selected = nullptr;
      {
        const InsertBefore here(graph, node);
        graph.set_location(node->location());
        selected = ops::conv2d_transposed(graph, *node);
        graph.set_location({});
      }
      graph.replace_all_uses(node->output(), selected);
      graph.erase(node);
      context.count();
      changed = true;
    }
    node = next;
  }
  return changed;
}

}  // namespace

Pass select_transposed_convolutions() {
  return {"select-transposed-convolutions",
          "transposed convolutions as one kernel where that pays, for targets that have it",
          Stage::middle, 2, select_in};
}

}  // namespace gex::passes
