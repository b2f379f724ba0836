#include "passes/quantised_products.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "ir/label_propagation.hpp"
#include "ops/core/build.hpp"
#include "ops/core/quantised_products.hpp"
#include "passes/dequantised_weights.hpp"

namespace gex::passes {
namespace {

// The number of rows of a product if it is a constant.
std::optional<std::int64_t> rows_of(const Node& node) {
  Shape rows = node.output()->type().shape;
  rows.pop_back();
  return product(rows).as_const();
}

// Whether a product has surely few rows.
bool has_few_rows(const Node& node) {
  constexpr std::int64_t kFewRows = 16;
  return rows_of(node).value_or(kFewRows + 1) <= kFewRows;
}

// Whether weights that are widened once, not in every call, are surely faster.
bool has_many_rows(const Node& node) {
  constexpr std::int64_t kManyRows = 9;
  return rows_of(node).value_or(0) >= kManyRows;
}

class QuantisedRewriter {
 public:
  QuantisedRewriter(Graph& graph, Node& node, PassContext& context)
      : g_(graph), node_(node), context_(context) {}

  Value* run() {
    Value *x = node_.input(0), *weights = node_.input(1);
    const DType dtype = x->type().dtype;
    const bool fits = weights->type().rank() == 2 &&
                      (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16);
    if (!fits || (has_many_rows(node_) && computed_once(weights))) return nullptr;
    inputs_ = weights->type().shape[0];
    outputs_ = weights->type().shape[1];
    auto found = dequantised_weights(weights);
    if (!found || !inputs_.is_const() || !outputs_.is_const() || !choose_group(*found))
      return nullptr;
    Value* q = numbers(*found);
    if (q == nullptr) return nullptr;
    Value* scale = nullptr;
    if (found->scale.value != nullptr) {
      const DType stored = found->scale.value->type().dtype;
      if (stored == DType::f64) return nullptr;
      scale = parameter(found->scale, is_float(stored) ? stored : DType::f32);
    }
    Value* offset = offsets(*found, scale);
    attrs_.wide = node_.as<ops::Matmul>().wide;
    return ops::quantised_linear(g_, x, q, scale, offset, attrs_);
  }

 private:
  // The largest groups in which no parameter varies.
  bool choose_group(const DequantisedWeights& w) {
    for (const WeightParameter* p : {&w.scale, &w.zero, &w.offset}) {
      const auto group = group_of(*p, outputs_, inputs_);
      if (!group) {
        context_.remark(node_,
                        "not a product with quantised weights: scales or zero points vary "
                        "in another way than by groups of inputs");
        return false;
      }
      attrs_.group =
          attrs_.group == 0 || *group == 0 ? attrs_.group + *group : std::gcd(attrs_.group, *group);
    }
    return true;
  }

  // [outputs, inputs] as bytes, or half as many bytes.
  Value* numbers(const DequantisedWeights& w) {
    if (!w.halves) return in_two_axes(w.numbers, w.inputs_last);
    attrs_.bits = 4;
    if (Value* bytes = packed_already(w)) return bytes;
    if (!computed_once(w.numbers)) {
      context_.remark(node_,
                      "not a product with quantised weights: halves of bytes are in another "
                      "order and would be rearranged at each call; freeze the weights");
      return nullptr;
    }
    return ops::pack_halves(g_, in_two_axes(w.numbers, w.inputs_last));
  }
  Value* in_two_axes(Value* v, bool inputs_last) {
    if (inputs_last) return ops::reshape(g_, v, {outputs_, inputs_});
    return ops::transpose(g_, ops::reshape(g_, v, {inputs_, outputs_}), {1, 0});
  }
  // Bytes whose lower and upper halves are side by side in the weights: what the kernels read.
  Value* packed_already(const DequantisedWeights& w) {
    if (!w.inputs_last || inputs_.constant() % 2 != 0) return nullptr;
    const Value* v = w.numbers;
    while (v->producer() != nullptr && (v->producer()->is("reshape") || v->producer()->is("cast")))
      v = v->producer()->input(0);
    const Node* both = v->producer();
    if (both == nullptr || !both->is("cat") || both->inputs().size() != 2) return nullptr;
    const Shape& shape = v->type().shape;
    if (both->as<ops::Axis>().axis != std::ssize(shape) - 1 || !(shape.back() == Dim(2)))
      return nullptr;
    Value* low = half(both->input(0), "bit_and", 15);
    if (low == nullptr || low != half(both->input(1), "shr", 4)) return nullptr;
    return ops::reshape(g_, low, {outputs_, floordiv(inputs_, 2)});
  }
  // The bytes of which `v` is one half; upper halves may be masked, too.
  static Value* half(Value* v, const char* op, double with) {
    const auto is_number = [](const Value* number, double value) {
      const Node* node = number->producer();
      while (node != nullptr && node->is("cast")) node = node->input(0)->producer();
      return node != nullptr && node->is("full") && node->as<ops::Full>().value == value;
    };
    for (; v->producer() != nullptr; v = v->producer()->input(0)) {
      const Node& node = *v->producer();
      if (node.is(op) && is_number(node.input(1), with)) return as_bytes(node.input(0));
      const bool masked = node.is("bit_and") && is_number(node.input(1), 15);
      if (!node.is("reshape") && !node.is("cast") && !masked) return nullptr;
    }
    return nullptr;
  }
  static Value* as_bytes(Value* v) {
    while (v->producer() != nullptr && v->producer()->is("cast")) v = v->producer()->input(0);
    return v->type().dtype == DType::u8 ? v : nullptr;
  }

  // Whether it depends only on constants and frozen inputs.
  bool computed_once(const Value* v) const {
    if (v->producer() == nullptr) return context_.is_frozen(v);
    const Node& node = *v->producer();
    if (node.op().has(Trait::constant) && node.inputs().empty()) return true;
    if (!node.op().has(Trait::pure) || node.inputs().empty()) return false;
    return std::ranges::all_of(node.inputs(), [&](const Value* input) {
      return input != nullptr && computed_once(input);
    });
  }

  Value* parameter(const WeightParameter& p, DType dtype) {
    return ops::cast(g_, by_outputs(g_, p, outputs_, inputs_, attrs_.group), dtype);
  }
  // Zero points that are not one number become offsets.
  Value* offsets(const DequantisedWeights& w, Value* scale) {
    Value* sum = nullptr;
    if (w.offset.value != nullptr) sum = parameter(w.offset, DType::f32);
    if (w.zero.value == nullptr) return sum;
    const Node* one = w.zero.value->producer();
    while (one != nullptr && (one->is("cast") || one->is("reshape")))
      one = one->input(0)->producer();
    if (one != nullptr && one->is("full")) {
      const double number = one->as<ops::Full>().value;
      attrs_.zero = static_cast<std::int64_t>(number);
      if (static_cast<double>(attrs_.zero) == number && std::abs(number) <= 256) return sum;
      attrs_.zero = 0;
    }
    Value* moved = ops::neg(g_, parameter(w.zero, DType::f32));
    if (scale != nullptr) moved = ops::mul(g_, moved, ops::cast(g_, scale, DType::f32));
    return sum == nullptr ? moved : ops::add(g_, sum, moved);
  }

  Graph& g_;
  Node& node_;
  PassContext& context_;
  Dim inputs_, outputs_;
  ops::QuantisedMatmul attrs_;
};

bool rewrite_quantised(Graph& graph, Node& node, PassContext& context) {
  LabelPropagation labels(graph, &node);
  InsertBefore here(graph, &node);
  graph.set_location(node.location());
  Value* y = QuantisedRewriter(graph, node, context).run();
  graph.set_location({});
  if (y == nullptr) return false;
  labels.apply(node);
  y->set_name(node.output()->name());
  y->set_type(node.output()->type());
  graph.replace_all_uses(node.output(), y);
  return true;
}

bool rewrite_all(Graph& graph, PassContext& context, bool few_rows) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs())
      changed |= rewrite_all(*subgraph, context, few_rows);
    if (!node.is("matmul") || node.output()->uses().empty()) continue;
    if (few_rows && !has_few_rows(node)) continue;
    if (!rewrite_quantised(graph, node, context)) continue;
    context.count();
    changed = true;
  }
  return changed;
}

bool expand_all(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node* node = graph.first(); node != nullptr; node = node->next()) {
    for (const auto& subgraph : node->subgraphs()) changed |= expand_all(*subgraph, context);
    if (!node->is("quantised_matmul") || node->output()->uses().empty()) continue;
    if (has_few_rows(*node)) continue;
    InsertBefore here(graph, node);
    graph.set_location(node->location());
    Value* y = ops::expand_node(graph, *node).at(0);
    y->set_type(node->output()->type());
    graph.set_location({});
    graph.replace_all_uses(node->output(), y);
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace

Pass quantised_products() {
  return {"quantised-products", "matmuls with dequantised weights read the quantised ones",
          Stage::early, 2,
          [](Graph& graph, PassContext& context) { return rewrite_all(graph, context, false); }};
}

Pass quantised_products_of_few_rows() {
  return {"quantised-products-of-few-rows", "likewise for targets with kernels for few rows alone",
          Stage::early, kOnRequest,
          [](Graph& graph, PassContext& context) { return rewrite_all(graph, context, true); }};
}

Pass expand_quantised_products() {
  return {"expand-quantised-products",
          "products of many rows with quantised weights, for targets without kernels for them",
          Stage::late, kOnRequest, expand_all};
}

}  // namespace gex::passes
