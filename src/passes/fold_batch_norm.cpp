#include "passes/fold_batch_norm.hpp"

#include "ir/label_propagation.hpp"
#include "ops/core/build.hpp"

namespace gex::passes {
namespace {

// Whether the contents are known when the program is bound: arithmetic on them runs once.
bool is_known(const Value* v, const PassContext& context) {
  while (v->producer() != nullptr && (v->producer()->is("reshape") || v->producer()->is("cast")))
    v = v->producer()->input(0);
  return context.is_frozen(v) || (v->producer() != nullptr && v->producer()->is("constant"));
}

bool has_one_use(const Value* v) { return v->uses().size() == 1; }

struct NormedConv {
  Node* norm = nullptr;
  Node* conv = nullptr;
  Node* biased = nullptr;  // the addition between them, or null
};

// Above a reshape that only removes an axis of one row, as 1-d convolutions have it; else `v`.
const Value* with_height(const Value* v) {
  const Node* node = v->producer();
  if (node == nullptr || !node->is("reshape") || !has_one_use(v)) return v;
  Shape from = node->input(0)->type().shape;
  if (from.size() != 4 || !(from[2] == Dim(1))) return v;
  from.erase(from.begin() + 2);
  return from == v->type().shape ? node->input(0) : v;
}

// Before a cast to bf16 that rounds a convolution with its bias; else `v`.
const Value* unrounded(const Value* v) {
  const Node* node = v->producer();
  if (node == nullptr || !node->is("cast") || !has_one_use(v)) return v;
  const bool rounds = v->type().dtype == DType::bf16 && node->input(0)->type().dtype == DType::f32;
  return rounds ? node->input(0) : v;
}

std::optional<NormedConv> match(Node& norm) {
  NormedConv found{.norm = &norm};
  const Value* x = unrounded(with_height(unrounded(norm.input(0))));
  Node* producer = x->producer();
  if (producer != nullptr && producer->is("add") && has_one_use(x)) {
    found.biased = producer;
    x = producer->input(0);
    producer = x->producer();
  }
  if (producer == nullptr || !producer->is("conv2d") || !has_one_use(x)) return std::nullopt;
  found.conv = producer;
  return found;
}

// Weights of f16 times a small or large scale may leave its range, so they are not folded.
bool keeps_range(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

bool has_known_operands(const NormedConv& m, const PassContext& context) {
  if (m.biased != nullptr && !is_known(m.biased->input(1), context)) return false;
  for (std::size_t k = 1; k < m.norm->inputs().size(); ++k)
    if (m.norm->has_input(k) && !is_known(m.norm->input(k), context)) return false;
  const Value* weight = m.conv->input(1);
  const DType dtype = weight->type().dtype;
  return is_known(weight, context) && keeps_range(dtype) && m.norm->output()->type().dtype == dtype;
}

// The new weights and bias, in f64 until they are rounded once. The bias of a bf16 convolution
// stays f32, as in the norm itself.
Value* normed_conv(Graph& g, const NormedConv& m) {
  const Node& norm = *m.norm;
  Value* weight = m.conv->input(1);
  const Dim channels = weight->type().shape[0];
  auto of_norm = [&](std::size_t k) { return ops::cast(g, norm.input(k), DType::f64); };
  Value* scale = ops::rsqrt(g, ops::add(g, of_norm(4), norm.as<ops::BatchNorm>().eps));
  if (norm.has_input(1)) scale = ops::mul(g, scale, of_norm(1));
  Value* shift = ops::neg(g, of_norm(3));
  if (m.biased != nullptr) {
    Value* bias = ops::reshape(g, m.biased->input(1), {channels});
    shift = ops::add(g, ops::cast(g, bias, DType::f64), shift);
  }
  shift = ops::mul(g, shift, scale);
  if (norm.has_input(2)) shift = ops::add(g, shift, of_norm(2));

  Shape per_filter(weight->type().shape.size(), Dim(1));
  per_filter[0] = channels;
  Value* filters =
      ops::mul(g, ops::cast(g, weight, DType::f64), ops::reshape(g, scale, per_filter));
  const DType dtype = weight->type().dtype;
  Value* y =
      ops::conv2d(g, m.conv->input(0), ops::cast(g, filters, dtype), m.conv->as<ops::Conv>());
  Value* bias = ops::cast(g, ops::reshape(g, shift, {channels, Dim(1), Dim(1)}), DType::f32);
  y = ops::cast(g, ops::add(g, ops::cast(g, y, DType::f32), bias), dtype);
  return ops::reshape(g, y, norm.output()->type().shape);
}

bool fold(Graph& graph, Node& norm, PassContext& context) {
  const std::optional<NormedConv> m = match(norm);
  if (!m) return false;
  if (!has_known_operands(*m, context)) {
    context.remark(norm,
                   "the batch norm is not folded: its convolution's weights or statistics are "
                   "neither constants nor frozen, or not f32 or bf16");
    return false;
  }
  if (m->biased != nullptr &&
      !(m->biased->input(1)->type().numel() == norm.input(3)->type().numel()))
    return false;
  LabelPropagation labels(graph, &norm);
  InsertBefore here(graph, &norm);
  graph.set_location(norm.location());
  Value* y = normed_conv(graph, *m);
  graph.set_location({});
  // The last node first: if labels differ, those of the result win.
  labels.apply(norm);
  if (m->biased != nullptr) labels.apply(*m->biased);
  labels.apply(*m->conv);
  y->set_name(norm.output()->name());
  graph.replace_all_uses(norm.output(), y);
  return true;
}

}  // namespace

bool fold_batch_norm(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= fold_batch_norm(*subgraph, context);
    if (!node.is("batch_norm") || node.output()->type().strides || !fold(graph, node, context))
      continue;
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace gex::passes
