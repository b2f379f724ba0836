#include "passes/flatten_matmuls.hpp"

#include <array>

#include "ops/core/build.hpp"
#include "passes/engine/rules.hpp"

namespace gex::passes {
namespace {

bool lies_row_by_row(const Value* v) {
  if (v->type().strides) return false;
  const Node* node = v->producer();
  return node == nullptr || !node->op().has(Trait::view) ||
         (node->is("reshape") && lies_row_by_row(node->input(0)));
}

Value* flatten(Graph& graph, Node& node) {
  if (!node.is("matmul") || node.output()->type().strides) return nullptr;
  Value *a = node.input(0), *b = node.input(1);
  if (a->type().rank() < 3 || b->type().rank() != 2 || !lies_row_by_row(a)) return nullptr;
  Shape rows = a->type().shape;
  const Dim width = rows.back();
  rows.pop_back();
  Value* flat = ops::matmul(graph, ops::reshape(graph, a, {product(rows), width}), b,
                            node.as<ops::Matmul>().wide);
  return ops::reshape(graph, flat, node.output()->type().shape);
}

constexpr std::array<Rule, 1> kFlattenRules = {flatten};

bool flatten_all(Graph& graph, PassContext& context) {
  return apply_rules(graph, context, kFlattenRules);
}

}  // namespace

Pass flatten_matmuls() {
  return {"flatten-matmuls", "makes a batch of matmuls with one right operand a single matmul",
          Stage::early, 3, flatten_all};
}

}  // namespace gex::passes
