#include "passes/cse.hpp"

#include <unordered_map>

namespace gex::passes {
namespace {

class EqualNodes {
 public:
  EqualNodes(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  bool run() {
    for (const auto& input : graph_.inputs()) number(input.get());
    bool changed = false;
    for (Node& node : graph_.nodes()) {
      for (const auto& subgraph : node.subgraphs())
        changed |= EqualNodes(*subgraph, context_).run();
      if (!node.op().has(Trait::pure) || node.op().has(Trait::random) ||
          !node.subgraphs().empty()) {
        number_outputs(node);
        continue;
      }
      Hash hash = hash_of(node);
      Node* equal = nullptr;
      auto [begin, end] = seen_.equal_range(hash);
      for (auto it = begin; it != end && equal == nullptr; ++it) {
        if (same(*it->second, node)) equal = it->second;
      }
      if (equal == nullptr) {
        number_outputs(node);
        seen_.emplace(hash, &node);
        continue;
      }
      for (std::size_t k = 0; k < node.num_outputs(); ++k) {
        graph_.replace_all_uses(node.output(k), equal->output(k));
      }
      graph_.erase(&node);
      context_.count();
      changed = true;
    }
    return changed;
  }

 private:
  void number(const Value* v) { numbers_.emplace(v, numbers_.size() + 1); }
  void number_outputs(const Node& node) {
    for (std::size_t k = 0; k < node.num_outputs(); ++k) number(node.output(k));
  }

  // Operand numbers, the first two sorted if the op is commutative.
  std::vector<std::size_t> operands(const Node& node) const {
    std::vector<std::size_t> ids;
    for (const Value* input : node.inputs())
      ids.push_back(input == nullptr ? 0 : numbers_.at(input));
    if (node.op().has(Trait::commutative) && ids.size() >= 2 && ids[1] < ids[0])
      std::swap(ids[0], ids[1]);
    return ids;
  }

  Hash hash_of(const Node& node) const {
    Hash hash = hash_text(node.op().name);
    for (std::size_t id : operands(node)) hash = hash_combine(hash, id);
    for (const AttrValue& value : node.attrs()) hash = hash_combine(hash, attr_hash(value));
    return hash_combine(hash, labels_hash(node.labels()));
  }

  bool same(const Node& a, const Node& b) const {
    if (&a.op() != &b.op() || operands(a) != operands(b) || a.num_outputs() != b.num_outputs() ||
        !labels_equal(a.labels(), b.labels()))
      return false;
    for (std::size_t k = 0; k < a.attrs().size(); ++k) {
      if (!attr_equal(a.attrs()[k], b.attrs()[k])) return false;
    }
    // Types may differ if a layout was promised for only one of them.
    for (std::size_t k = 0; k < a.num_outputs(); ++k) {
      if (!(a.output(k)->type() == b.output(k)->type())) return false;
    }
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  std::unordered_map<const Value*, std::size_t> numbers_;
  std::unordered_multimap<Hash, Node*> seen_;
};

}  // namespace

bool merge_equal_nodes(Graph& graph, PassContext& context) {
  return EqualNodes(graph, context).run();
}

}  // namespace gex::passes
