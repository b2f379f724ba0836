#include "compile/frozen/fold_frozen.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"
#include "lower/views.hpp"

namespace gex::compile_detail {

namespace {

// A result may be this much larger than its operands: beyond that, recomputing it costs less than
// storing it.
constexpr std::int64_t kMaxGrowth = 4;
constexpr std::int64_t kSmallBytes = 64 * 1024;

std::int64_t bytes_of(const Value& value) { return value.type().bytes().as_const().value_or(0); }
bool grows(const Value& result, std::int64_t operands) {
  return bytes_of(result) > std::max(kMaxGrowth * operands, kSmallBytes);
}

bool is_generated(const Value* value) {
  return value->producer() != nullptr && value->producer()->op().has(Trait::constant) &&
         value->producer()->inputs().empty();
}

// Whether only matmuls with few rows read a value, directly or through elementwise nodes and views.
// Such matmuls take as long as reading their operands from memory.
bool feeds_products_of_few_rows(const Value* value) {
  constexpr std::int64_t kFewRows = 8;
  if (value->uses().empty()) return false;
  return std::ranges::all_of(value->uses(), [&](const Use& use) {
    if (use.node == nullptr || use.node->num_outputs() != 1) return false;
    const Value* result = use.node->output();
    const OpDef& op = use.node->op();
    if (op.has(Trait::contraction)) {
      const Shape& shape = result->type().shape;
      const auto rows =
          shape.size() < 2 ? std::optional<std::int64_t>(1) : shape[shape.size() - 2].as_const();
      return rows && *rows <= kFewRows;
    }
    return (op.has(Trait::view) || op.has(Trait::elementwise)) &&
           feeds_products_of_few_rows(result);
  });
}

// Whether the node widens 8-bit weights for matmuls that read them once. The matmul then widens
// them itself, because the wide weights would be more bytes to read.
bool widens_in_product(const Node& node) {
  if (node.inputs().size() != 1 || node.num_outputs() != 1) return false;
  return size_of(node.input(0)->type().dtype) == 1 && size_of(node.output()->type().dtype) > 1 &&
         feeds_products_of_few_rows(node.output());
}

// The nodes that depend only on frozen contents, in graph order.
class FrozenNodes {
 public:
  FrozenNodes(const Graph& graph, const std::vector<FrozenInput>& frozen) {
    for (const FrozenInput& input : frozen)
      if (input.contents)
        known_.insert(graph.inputs()[static_cast<std::size_t>(input.graph_input)].get());
    for (Node& node : graph.nodes()) {
      if (!depends_on_known_alone(node) || widens_in_product(node)) continue;
      nodes_.push_back(&node);
      for (std::size_t k = 0; k < node.num_outputs(); ++k) known_.insert(node.output(k));
    }
  }

  const std::vector<const Node*>& nodes() const { return nodes_; }

  // Results of arithmetic that the rest of the graph reads, also through views: views cost nothing,
  // but for those that would be copied at each call.
  std::vector<Value*> results() const {
    std::vector<Value*> results;
    for (const Node* node : nodes_) {
      const bool view = node->op().has(Trait::view);
      for (std::size_t k = 0; k < node->num_outputs(); ++k)
        if (view ? copied(node->output(k)) : read_outside(node->output(k)))
          results.push_back(node->output(k));
    }
    return results;
  }

 private:
  bool depends_on_known_alone(const Node& node) const {
    const OpDef& op = node.op();
    if (!op.has(Trait::pure) || op.has(Trait::random) || op.has(Trait::constant)) return false;
    if (!node.subgraphs().empty() || (!op.body && !op.expand)) return false;
    bool any = false;
    std::int64_t room = 0;
    for (const Value* input : node.inputs()) {
      if (input == nullptr) continue;
      const bool known = known_.contains(input);
      if (!known && !is_generated(input)) return false;
      any |= known;
      room += bytes_of(*input);
    }
    for (std::size_t k = 0; k < node.num_outputs(); ++k) {
      if (!node.output(k)->type().bytes().as_const()) return false;
      if (!op.has(Trait::view) && grows(*node.output(k), room)) return false;
    }
    return any;
  }

  // Whether a contraction outside reads a view that strides can't describe, such as one that merges
  // axes that are not adjacent in memory. Other nodes read views by their index maps.
  bool copied(Value* view) const {
    const bool contracted = std::ranges::any_of(view->uses(), [&](const Use& use) {
      return use.node != nullptr && use.node->op().has(Trait::contraction) &&
             !known_.contains(use.node->output());
    });
    if (!contracted || lower::resolve_view(view)) return false;
    const Value* whole = view;
    while (whole->producer() != nullptr && whole->producer()->op().has(Trait::view))
      whole = whole->producer()->input(0);
    return !grows(*view, bytes_of(*whole));
  }

  bool read_outside(const Value* value) const {
    return std::ranges::any_of(value->uses(), [&](const Use& use) {
      // A check has no results.
      if (use.node == nullptr || use.node->num_outputs() == 0) return true;
      if (!known_.contains(use.node->output())) return true;
      Value* result = use.node->output();
      return use.node->op().has(Trait::view) && !copied(result) && read_outside(result);
    });
  }

  std::unordered_set<const Value*> known_;
  std::vector<const Node*> nodes_;
};

// The frozen part as a separate graph: the same inputs in the same order, `results` as its outputs.
std::unique_ptr<Graph> extract(const Graph& graph, const std::vector<FrozenInput>& frozen,
                               const FrozenNodes& part, const std::vector<Value*>& results) {
  auto out = std::make_unique<Graph>(graph.name() + ".frozen");
  std::unordered_map<const Value*, Value*> image;
  for (const FrozenInput& input : frozen) {
    const Value* value = graph.inputs()[static_cast<std::size_t>(input.graph_input)].get();
    image[value] = out->add_input(value->type(), value->name());
  }
  auto clone = [&](const Node& node) {
    std::vector<Value*> inputs;
    for (const Value* input : node.inputs()) {
      if (input != nullptr && !image.contains(input))
        image[input] = out->clone_node(*input->producer(), {})->output();
      inputs.push_back(input == nullptr ? nullptr : image.at(input));
    }
    const Node* copy = out->clone_node(node, inputs);
    for (std::size_t k = 0; k < node.num_outputs(); ++k) image[node.output(k)] = copy->output(k);
  };
  for (const Node* node : part.nodes()) clone(*node);
  for (const Value* result : results) out->add_output(image.at(result));
  return out;
}

}  // namespace

FoldedPart fold_frozen(Graph& graph, std::vector<FrozenInput>& frozen) {
  std::vector<Value*> results;
  FoldedPart folded;
  {
    const FrozenNodes part(graph, frozen);
    results = part.results();
    if (results.empty()) return folded;
    folded.graph = extract(graph, frozen, part, results);
  }
  const std::size_t before = graph.num_nodes();
  for (std::size_t k = 0; k < results.size(); ++k) {
    Value* ready = graph.add_input(results[k]->type(), str("frozen", k));
    graph.replace_all_uses(results[k], ready);
    frozen.push_back({ready->index(), nullptr, true});
  }
  for (Node* node = graph.last(); node != nullptr;) {
    Node* previous = node->prev();
    bool used = !node->op().has(Trait::pure);
    for (std::size_t k = 0; k < node->num_outputs(); ++k) used |= !node->output(k)->uses().empty();
    if (!used) graph.erase(node);
    node = previous;
  }
  folded.nodes = static_cast<int>(before - graph.num_nodes());
  return folded;
}

}  // namespace gex::compile_detail
