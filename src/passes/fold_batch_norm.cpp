#include "passes/fold_batch_norm.hpp"

#include <cmath>

#include "ir/label_propagation.hpp"
#include "ops/core/build.hpp"

namespace gex::passes {
namespace {

const HostTensor* constant_of(const Value* v) {
  while (v != nullptr && v->producer() != nullptr && v->producer()->is("reshape"))
    v = v->producer()->input(0);
  if (v == nullptr || v->producer() == nullptr || !v->producer()->is("constant")) return nullptr;
  return std::get<TensorPtr>(v->producer()->attr("value")).get();
}

bool used_once(const Value* v) { return v->uses().size() == 1; }

bool fold(Graph& graph, Node& norm, PassContext& context) {
  Value* x = norm.input(0);
  const HostTensor* bias = nullptr;
  Node* conv = x->producer();
  const Node* biased = nullptr;
  if (conv != nullptr && conv->is("add") && used_once(x)) {
    biased = conv;
    bias = constant_of(conv->input(1));
    x = conv->input(0);
    conv = x->producer();
    if (bias == nullptr) return false;
  }
  if (conv == nullptr || !conv->is("conv2d") || !used_once(x)) return false;
  const HostTensor* weight = constant_of(conv->input(1));
  const HostTensor* mean = constant_of(norm.input(3));
  const HostTensor* variance = constant_of(norm.input(4));
  const HostTensor* gamma = norm.has_input(1) ? constant_of(norm.input(1)) : nullptr;
  const HostTensor* beta = norm.has_input(2) ? constant_of(norm.input(2)) : nullptr;
  bool known =
      weight && mean && variance && (gamma || !norm.has_input(1)) && (beta || !norm.has_input(2));
  if (!known || weight->dtype() != DType::f32 || norm.output()->type().dtype != DType::f32) {
    context.remark(
        norm,
        "the batch norm is not folded: its convolution's weights or statistics are not constants");
    return false;
  }
  std::int64_t channels = mean->numel();
  if (bias != nullptr && bias->numel() != channels) return false;
  double eps = norm.as<ops::BatchNorm>().eps;
  HostTensor new_weight = *weight;
  HostTensor new_bias(DType::f32, {channels, 1, 1});
  std::int64_t per_channel = weight->numel() / channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    double scale = (gamma ? gamma->get(c) : 1) / std::sqrt(variance->get(c) + eps);
    for (std::int64_t k = c * per_channel; k < (c + 1) * per_channel; ++k)
      new_weight.set(k, weight->get(k) * scale);
    new_bias.set(c, ((bias ? bias->get(c) : 0) - mean->get(c)) * scale + (beta ? beta->get(c) : 0));
  }
  LabelPropagation labels(graph, &norm);
  InsertBefore here(graph, &norm);
  graph.set_location(norm.location());
  Value* y = ops::conv2d(graph, conv->input(0), ops::constant(graph, std::move(new_weight)),
                         conv->as<ops::Conv>());
  y = ops::add(graph, y, ops::constant(graph, std::move(new_bias)));
  graph.set_location({});
  // The last node first: if labels differ, those of the result win.
  labels.apply(norm);
  if (biased != nullptr) labels.apply(*biased);
  labels.apply(*conv);
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
