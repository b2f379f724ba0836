#include "passes/merge_matmuls.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ir/label_propagation.hpp"
#include "ops/core/build.hpp"
#include "passes/engine/rules.hpp"
#include "passes/shared_tail.hpp"

namespace gex::passes {
namespace {

using Group = std::vector<Node*>;

const HostTensor* constant_weight(const Value* v) {
  const Node* node = producer_of(v, "constant");
  return node == nullptr ? nullptr : std::get<TensorPtr>(node->attr("value")).get();
}

// The right operand of a matmul: [k, n], or the transpose of [n, k].
struct Matrix {
  Value* base;
  bool transposed;

  explicit Matrix(Value* v) : base(v), transposed(false) {
    if (Node* transpose = producer_of(v, "transpose"); transpose && v->type().rank() == 2) {
      base = transpose->input(0);
      transposed = true;
    }
  }
};

// Concatenates equal matrices along axis 1 or axis 0.
HostTensor joined(const std::vector<const HostTensor*>& parts, std::size_t axis) {
  std::vector<std::int64_t> shape = parts[0]->shape();
  for (std::size_t k = 1; k < parts.size(); ++k) shape[axis] += parts[k]->shape()[axis];
  HostTensor whole(parts[0]->dtype(), shape);
  std::byte* to = whole.data();
  const std::int64_t rows = axis == 0 ? 1 : shape[0];
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const HostTensor* part : parts) {
      const std::size_t bytes =
          part->bytes() / static_cast<std::size_t>(std::max<std::int64_t>(rows, 1));
      std::memcpy(to, part->data() + static_cast<std::size_t>(row) * bytes, bytes);
      to += bytes;
    }
  }
  return whole;
}

class Merger {
 public:
  Merger(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  bool run() {
    std::unordered_map<const Value*, std::vector<std::size_t>> of_root;
    std::vector<Group> groups;  // in graph order
    for (Node& node : graph_.nodes()) {
      if (!mergeable(node)) continue;
      std::vector<std::size_t>& candidates = of_root[before_reshape(node.input(0))];
      const auto at = std::find_if(candidates.begin(), candidates.end(), [&](std::size_t group) {
        return fits(*groups[group][0], node);
      });
      if (at != candidates.end()) {
        groups[*at].push_back(&node);
      } else {
        candidates.push_back(groups.size());
        groups.push_back({&node});
      }
    }
    bool changed = false;
    for (const Group& group : groups) {
      if (group.size() < 2) continue;
      std::vector<Value*> products;
      for (const Node* node : group) products.push_back(node->output());
      const SharedTail tail(std::move(products));
      if (tail.waits()) {
        context_.remark(*group[0], "not merged: the addends are computed between the matmuls");
        continue;
      }
      merge(group, tail);
      context_.count();
      changed = true;
    }
    return changed;
  }

 private:
  // Linear layers flatten their operand separately: equal reshapes of one value count as one
  // operand.
  static const Value* before_reshape(const Value* v) {
    const Node* reshape = producer_of(v, "reshape");
    return reshape != nullptr ? reshape->input(0) : v;
  }

  // Whether they have the same left operand and may be merged; nodes with different labels are not.
  static bool fits(const Node& first, const Node& node) {
    const Value *left = first.input(0), *other = node.input(0);
    const bool same = left == other || (before_reshape(left) == before_reshape(other) &&
                                        left->type() == other->type());
    const Matrix a(first.input(1)), b(node.input(1));
    return same && first.as<ops::Matmul>().wide == node.as<ops::Matmul>().wide &&
           a.transposed == b.transposed && labels_equal(first.labels(), node.labels()) &&
           (constant_weight(a.base) != nullptr) == (constant_weight(b.base) != nullptr);
  }

  // A result that is returned unchanged, or after what fits into the matmul's epilogue, would have
  // to be copied out of the merged one.
  static bool is_handed_out(const Value* v) {
    if (const Node* next = only_by_columns(v)) return is_handed_out(next->output());
    return std::any_of(v->uses().begin(), v->uses().end(), [](const Use& use) {
      if (use.node == nullptr) return true;
      return use.node->op().has(Trait::view) && use.node->inputs().size() == 1 &&
             is_handed_out(use.node->output());
    });
  }

  bool mergeable(const Node& node) const {
    if (!node.is("matmul") || node.input(1)->type().rank() != 2 || node.output()->type().strides)
      return false;
    if (!node.output()->type().shape.back().is_const() || !is_float(node.output()->type().dtype))
      return false;
    if (is_handed_out(node.output())) return false;
    const Value* base = Matrix(node.input(1)).base;
    return context_.is_frozen(base) || constant_weight(base) != nullptr;
  }

  // Before the first of them: constants and inputs are available there.
  Value* side_by_side(const Group& group) {
    const bool transposed = Matrix(group[0]->input(1)).transposed;
    std::vector<Value*> bases;
    std::vector<const HostTensor*> constants;
    for (const Node* node : group) {
      bases.push_back(Matrix(node->input(1)).base);
      constants.push_back(constant_weight(bases.back()));
    }
    const std::size_t axis = transposed ? 0 : 1;
    Value* all = constants[0] != nullptr
                     ? ops::constant(graph_, joined(constants, axis))
                     : ops::cat(graph_, std::move(bases), static_cast<std::int64_t>(axis));
    return transposed ? ops::transpose(graph_, all, {1, 0}) : all;
  }

  void merge(const Group& group, const SharedTail& tail) {
    LabelPropagation labels(graph_, group[0]);
    InsertBefore here(graph_, group[0]);
    graph_.set_location(group[0]->location());
    Value* product = ops::matmul(graph_, group[0]->input(0), side_by_side(group),
                                 group[0]->as<ops::Matmul>().wide);
    labels.apply(*group[0]);  // all of them have its labels
    Value* whole = tail.make(graph_, product);
    LabelPropagation later_labels(graph_, group[0]);
    std::vector<Value*> parts;
    Dim column = 0;
    for (const Value* end : tail.ends()) {
      const Dim columns = end->type().shape.back();
      graph_.set_location(end->producer()->location());
      parts.push_back(ops::slice(graph_, whole, -1, column, columns));
      parts.back()->set_name(end->name());
      column += columns;
    }
    graph_.set_location({});
    later_labels.apply(*tail.ends()[0]->producer());
    for (std::size_t k = 0; k < group.size(); ++k)
      graph_.replace_all_uses(tail.ends()[k], parts[k]);
    tail.erase(graph_);
    for (Node* node : group) graph_.erase(node);
  }

  Graph& graph_;
  PassContext& context_;
};

}  // namespace

bool merge_matmuls(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes())
    for (const auto& subgraph : node.subgraphs()) changed |= merge_matmuls(*subgraph, context);
  return Merger(graph, context).run() || changed;
}

}  // namespace gex::passes
