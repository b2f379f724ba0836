#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/check_node.hpp"
#include "ir/label_propagation.hpp"
#include "ir/matcher.hpp"

namespace gex {
namespace {

// Positions of nodes in a graph, renumbered only after it changed.
class NodeOrder {
 public:
  explicit NodeOrder(const Graph& graph) : graph_(graph) {}
  void forget() { position_.clear(); }
  std::size_t operator()(const Node* node) {
    if (position_.empty())
      for (const Node& n : graph_.nodes()) position_.emplace(&n, position_.size() + 1);
    return position_.at(node);
  }

 private:
  const Graph& graph_;
  std::unordered_map<const Node*, std::size_t> position_;
};

class Rewriter {
 public:
  // `outputs`: of the pattern or of a match.
  Rewriter(Graph& graph, const std::vector<Value*>& outputs) : graph_(graph), order_(graph) {
    std::unordered_set<const Node*> roots;
    for (const Value* output : outputs) roots.insert(output->producer());
    one_root_ = roots.size() == 1;
  }

  // Moves the nodes together so that they can be replaced as one, and returns the last one; null if
  // that is not possible.
  Node* gather(const Match& match) {
    if (one_root_) return match.outputs[0]->producer();  // everything else is computed for it
    std::vector<Node*> nodes = match.nodes;
    std::sort(nodes.begin(), nodes.end(),
              [&](const Node* a, const Node* b) { return order_(a) < order_(b); });
    std::size_t first_reader = first_outside_reader(match);
    if (order_(nodes.back()) < first_reader) return nodes.back();
    std::size_t last_input = 0;
    for (const Value* input : match.inputs)
      if (const Node* producer = input->producer();
          producer && std::find(nodes.begin(), nodes.end(), producer) == nodes.end())
        last_input = std::max(last_input, order_(producer));
    if (last_input >= first_reader) return nullptr;
    // The match can be computed as a whole between its last input and the first reader of an
    // output.
    Node* place = graph_.first();
    while (order_(place) <= last_input) place = place->next();
    while (std::find(nodes.begin(), nodes.end(), place) != nodes.end()) place = place->next();
    for (Node* node : nodes)
      if (order_(node) > order_(place)) graph_.move_before(node, place);
    moved = true;
    order_.forget();
    return nodes.back();
  }

  bool replace(const Match& match, Node* place,
               const std::function<std::vector<Value*>(Graph&, const Match&)>& replacement) {
    Node* before = place->prev();
    LabelPropagation labels(graph_, place);
    std::string saved_location = graph_.current_location();
    graph_.set_location(place->location());
    std::vector<Value*> values;
    {
      InsertBefore here(graph_, place);
      values = replacement(graph_, match);
    }
    graph_.set_location(std::move(saved_location));
    order_.forget();
    check(match, values);
    if (values == match.outputs) return false;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!graph_.can_replace(match.outputs[i], values[i])) {
        erase_unused_between(before, place);
        return false;
      }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i]->name().empty()) values[i]->set_name(match.outputs[i]->name());
      graph_.replace_all_uses(match.outputs[i], values[i]);
    }
    // The last nodes of the match first: if labels differ, those of its results win.
    for (std::size_t i = match.nodes.size(); i-- > 0;) labels.apply(*match.nodes[i]);
    return true;
  }

  bool moved = false;  // whether gather changed the order of nodes

 private:
  std::size_t first_outside_reader(const Match& match) {
    std::size_t first = ~std::size_t{0};
    for (const Value* output : match.outputs)
      for (const Use& use : output->uses())
        if (use.node != nullptr &&
            std::find(match.nodes.begin(), match.nodes.end(), use.node) == match.nodes.end())
          first = std::min(first, order_(use.node));
    return first;
  }

  void check(const Match& match, const std::vector<Value*>& values) const {
    if (values.size() != match.outputs.size())
      fail(ErrorCode::invalid_argument, "the replacement of `",
           print_node(*match.outputs[0]->producer()), "` returns ", values.size(), " values for ",
           match.outputs.size(), " outputs");
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == nullptr || !same_data_type(values[i]->type(), match.outputs[i]->type()))
        fail(ErrorCode::type_mismatch, "the replacement of `",
             print_node(*match.outputs[i]->producer()), "` gives ",
             values[i] ? values[i]->type().text() : "null");
    }
  }

  void erase_unused_between(Node* before, Node* place) {
    while (place->prev() != before) {
      Node* node = place->prev();
      for (std::size_t i = 0; i < node->num_outputs(); ++i)
        if (!node->output(i)->uses().empty()) return;
      graph_.erase(node);
    }
  }

  Graph& graph_;
  NodeOrder order_;
  bool one_root_ = true;
};

bool is_unused(const Node& node) {
  for (std::size_t i = 0; i < node.num_outputs(); ++i)
    if (!node.output(i)->uses().empty()) return false;
  return true;
}

bool contains(const std::vector<Value*>& values, const Value* value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// The nodes that compute `outputs` from `inputs`.
std::unordered_set<const Node*> nodes_between(const std::vector<Value*>& inputs,
                                              const std::vector<Value*>& outputs) {
  std::unordered_set<const Node*> found;
  std::vector<const Node*> pending;
  const auto reach = [&](const Value* value) {
    if (value == nullptr || contains(inputs, value)) return;
    if (value->is_input())
      fail(ErrorCode::invalid_graph, "the region reads %", value->name(),
           ", an input of the graph that is none of the region's inputs");
    if (found.insert(value->producer()).second) pending.push_back(value->producer());
  };
  for (const Value* output : outputs) {
    if (contains(inputs, output))
      fail(ErrorCode::invalid_graph, "%", output->name(),
           " is both an input and an output of the region");
    reach(output);
  }
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    for (const Value* operand : node->inputs()) reach(operand);
  }
  return found;
}

void check_self_contained(const std::vector<Node*>& nodes,
                          const std::unordered_set<const Node*>& inside,
                          const std::vector<Value*>& outputs) {
  for (const Node* node : nodes) {
    if (node->op().has(Trait::effect) || !node->subgraphs().empty())
      fail(ErrorCode::invalid_graph, "`", print_node(*node),
           "` has an effect or subgraphs; it can't be replaced");
    if (node->op().has(Trait::constant)) continue;
    for (std::size_t k = 0; k < node->num_outputs(); ++k) {
      if (contains(outputs, node->output(k))) continue;
      for (const Use& use : node->output(k)->uses())
        if (!inside.contains(use.node))
          fail(ErrorCode::invalid_graph, "the result of `", print_node(*node),
               "` is used outside of the region and is none of its outputs");
    }
  }
}

}  // namespace

Match region_between(std::vector<Value*> inputs, std::vector<Value*> outputs) {
  if (outputs.empty()) fail(ErrorCode::invalid_argument, "the region has no output");
  const Graph& graph = outputs[0]->graph();
  for (const std::vector<Value*>* values : {&inputs, &outputs})
    for (const Value* value : *values)
      if (&value->graph() != &graph)
        fail(ErrorCode::invalid_argument, "values of graphs '", graph.name(), "' and '",
             value->graph().name(), "' can't bound one region");
  Match match{std::move(inputs), {}, std::move(outputs)};
  const std::unordered_set<const Node*> inside = nodes_between(match.inputs, match.outputs);
  for (Node& node : graph.nodes())
    if (inside.contains(&node)) match.nodes.push_back(&node);
  check_self_contained(match.nodes, inside, match.outputs);
  return match;
}

bool replace_match(Graph& graph, const Match& match,
                   const std::function<std::vector<Value*>(Graph&, const Match&)>& replacement) {
  Rewriter rewriter(graph, match.outputs);
  Node* place = rewriter.gather(match);
  if (place == nullptr)
    fail(ErrorCode::invalid_graph, "an input of the region is computed from one of its outputs");
  return rewriter.replace(match, place, replacement);
}

bool apply_rewrite(Graph& graph, const Pattern& pattern,
                   const std::function<bool(const Match&)>& condition,
                   const std::function<std::vector<Value*>(Graph&, const Match&)>& replacement,
                   int* count, int* matched) {
  Rewriter rewriter(graph, pattern.graph().outputs());
  std::vector<Node*> candidates;
  for (Node& node : graph.nodes())
    if (&node.op() == &pattern.root_op()) candidates.push_back(&node);
  std::unordered_set<const Node*> erased;
  bool changed = false;
  for (Node* root : candidates) {
    if (erased.contains(root)) continue;
    std::optional<Match> match = pattern.match_at(root);
    if (!match) continue;
    if (matched != nullptr) ++*matched;
    if (condition && !condition(*match)) continue;
    Node* place = rewriter.gather(*match);
    if (place == nullptr || !rewriter.replace(*match, place, replacement)) continue;
    changed = true;
    if (count != nullptr) ++*count;
    // Users before producers: the pattern's order reversed.
    for (std::size_t i = match->nodes.size(); i-- > 0;)
      if (is_unused(*match->nodes[i])) {
        erased.insert(match->nodes[i]);
        graph.erase(match->nodes[i]);
      }
  }
  return changed || rewriter.moved;
}

}  // namespace gex
