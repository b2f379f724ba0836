#include "passes/sink_transposes.hpp"

#include <array>
#include <unordered_map>

#include "ops/core/build.hpp"
#include "passes/engine/rules.hpp"

namespace gex::passes {
namespace {

// Limit on the nodes between two transposes.
constexpr int kMostNodes = 32;

// Computes v with its axes permuted by `perm`, without a transpose.
class Untransposed {
 public:
  Untransposed(Graph& graph, const ops::Ints& perm) : graph_(graph), perm_(perm) {}

  // Whether that is possible and removes at least one transpose.
  bool possible(const Value* v) { return fits(v) && cancelled_ > 0; }

  Value* make(Value* v) {
    if (auto made = made_.find(v); made != made_.end()) return made->second;
    Value* result = v;
    if (Node* transpose = producer_of(v, "transpose"); transpose && undoes(*transpose)) {
      result = transpose->input(0);
    } else if (v->type().rank() != 0) {
      std::vector<Value*> inputs;
      for (Value* input : v->producer()->inputs())
        inputs.push_back(input == nullptr ? nullptr : make(input));
      result = graph_.clone_node(*v->producer(), inputs)->output();
    }
    return made_[v] = result;
  }

 private:
  bool undoes(const Node& transpose) const {
    const ops::Ints before = transpose.as<ops::Transpose>().perm;
    if (before.size() != perm_.size()) return false;
    for (std::size_t k = 0; k < perm_.size(); ++k)
      if (before[static_cast<std::size_t>(perm_[k])] != static_cast<std::int64_t>(k)) return false;
    return true;
  }

  bool fits(const Value* v) {
    if (v->type().rank() == 0) return true;  // the same for any order of axes
    if (++looked_at_ > kMostNodes || v->type().rank() != static_cast<int>(perm_.size()))
      return false;
    const Node* node = v->producer();
    if (node == nullptr) return false;
    if (node->is("transpose") && undoes(*node)) {
      ++cancelled_;
      return true;
    }
    if (!node->op().has(Trait::elementwise) || !node->op().has(Trait::pure) ||
        node->num_outputs() != 1 || v->uses().size() != 1)
      return false;
    for (const Value* input : node->inputs())
      if (input != nullptr && !fits(input)) return false;
    return true;
  }

  Graph& graph_;
  const ops::Ints& perm_;
  int looked_at_ = 0, cancelled_ = 0;
  std::unordered_map<Value*, Value*> made_;
};

Value* cancel(Graph& graph, Node& node) {
  if (!node.is("transpose")) return nullptr;
  const Node* before = node.input(0)->producer();
  if (before == nullptr || before->is("transpose")) return nullptr;
  const ops::Ints perm = node.as<ops::Transpose>().perm;
  Untransposed chain(graph, perm);
  return chain.possible(node.input(0)) ? chain.make(node.input(0)) : nullptr;
}

constexpr std::array<Rule, 1> kTransposeRules = {cancel};

}  // namespace

bool sink_transposes(Graph& graph, PassContext& context) {
  return apply_rules(graph, context, kTransposeRules);
}

}  // namespace gex::passes
