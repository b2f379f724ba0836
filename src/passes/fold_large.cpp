#include "passes/fold_large.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ops/core/build.hpp"
#include "passes/fold.hpp"

namespace gex::passes {
namespace {

// Intermediate values may be this much larger than the constants: a sum of bytes is a sum of 64-bit
// numbers.
constexpr std::int64_t kMaxGrowth = 8;

using Lists = std::vector<const Node*>;  // sorted

bool is_list(const Node& node) { return node.is("constant"); }
bool is_generated(const Node& node) {
  return node.op().has(Trait::constant) && node.inputs().empty();
}

std::int64_t bytes_of(const Lists& lists) {
  std::int64_t bytes = 0;
  for (const Node* list : lists) bytes += list->output()->type().bytes().as_const().value_or(0);
  return bytes;
}

class LargePart {
 public:
  explicit LargePart(Graph& graph) : graph_(graph) {
    for (Node& node : graph_.nodes())
      if (depends_on_lists_alone(node)) nodes_.push_back(&node);
    choose();
  }

  const std::vector<Value*>& results() const { return results_; }
  std::int64_t size() const { return std::ssize(nodes_); }

  std::unique_ptr<Graph> extract() const {
    auto part = std::make_unique<Graph>(graph_.name() + ".constant");
    Image image;
    for (const Node* node : nodes_) copy(*part, *node, image);
    for (const Value* result : results_) part->add_output(image.at(result));
    return part;
  }

  void replace(std::vector<HostTensor> values) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      InsertBefore here(graph_, results_[k]->producer());
      Value* constant = ops::constant(graph_, std::move(values[k]));
      graph_.replace_all_uses(results_[k], constant);
    }
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
      erase_with_orphans(graph_, **node);
  }

 private:
  using Image = std::unordered_map<const Value*, Value*>;

  // Copies it with its operands: constants, and views that stay in the graph for others.
  static void copy(Graph& part, const Node& node, Image& image) {
    std::vector<Value*> inputs;
    for (const Value* input : node.inputs()) {
      if (input != nullptr && !image.contains(input)) copy(part, *input->producer(), image);
      inputs.push_back(input == nullptr ? nullptr : image.at(input));
    }
    const Node* copied = part.clone_node(node, std::move(inputs));
    for (std::size_t k = 0; k < node.num_outputs(); ++k) image[node.output(k)] = copied->output(k);
  }

  bool depends_on_lists_alone(const Node& node) {
    if (!may_be_computed(node)) return false;
    Lists lists;
    for (const Value* input : node.inputs()) {
      if (input == nullptr) continue;
      if (input->producer() == nullptr) return false;
      const auto known = lists_of_.find(input->producer());
      if (known == lists_of_.end() && !is_generated(*input->producer())) return false;
      const Lists own = known != lists_of_.end()      ? known->second
                        : is_list(*input->producer()) ? Lists{input->producer()}
                                                      : Lists{};
      Lists both;
      std::set_union(lists.begin(), lists.end(), own.begin(), own.end(), std::back_inserter(both));
      lists = std::move(both);
    }
    if (lists.empty()) return false;
    for (std::size_t k = 0; k < node.num_outputs(); ++k) {
      const Type& type = node.output(k)->type();
      if (type.strides || !type.bytes().is_const()) return false;
      if (!node.op().has(Trait::view) && type.bytes().constant() > kMaxGrowth * bytes_of(lists))
        return false;
    }
    lists_of_[&node] = std::move(lists);
    return true;
  }

  // Goes from the last node to the first. A value that remaining nodes read becomes a result if it
  // is not too large; otherwise its node stays in the graph and its operands become results. Views
  // are never results: they stay in the graph with their readers.
  void choose() {
    std::unordered_set<const Node*> part;
    std::vector<Node*> chosen;
    const auto is_read_outside = [&](const Value* v) {
      return std::ranges::any_of(v->uses(),
                                 [&](const Use& use) { return !part.contains(use.node); });
    };
    for (auto at = nodes_.rbegin(); at != nodes_.rend(); ++at) {
      Node* node = *at;
      const std::int64_t room = bytes_of(lists_of_.at(node));
      std::vector<Value*> results;
      bool fits = true, is_used = false;
      for (std::size_t k = 0; k < node->num_outputs(); ++k) {
        Value* v = node->output(k);
        is_used |= !v->uses().empty();
        if (!is_read_outside(v)) continue;
        results.push_back(v);
        fits &= !node->op().has(Trait::view) && v->type().bytes().constant() <= room;
      }
      if (!fits || !is_used) continue;
      part.insert(node);
      chosen.push_back(node);
      results_.insert(results_.end(), results.begin(), results.end());
    }
    nodes_.assign(chosen.rbegin(), chosen.rend());
  }

  Graph& graph_;
  std::unordered_map<const Node*, Lists> lists_of_;
  std::vector<Node*> nodes_;  // in the graph's order
  std::vector<Value*> results_;
};

}  // namespace

bool fold_large(Graph& graph, PassContext& context) {
  const PassSettings& settings = context.settings();
  if (!settings.compute || settings.fold_limit <= 0) return false;
  LargePart part(graph);
  if (part.results().empty()) return false;
  part.replace(settings.compute(part.extract()));
  context.count(part.size());
  return true;
}

}  // namespace gex::passes
