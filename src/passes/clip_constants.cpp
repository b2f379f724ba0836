#include "passes/clip_constants.hpp"

#include <cmath>

#include "base/log.hpp"
#include "ops/core/build.hpp"
#include "passes/engine/rules.hpp"

namespace gex::passes {
namespace {

std::optional<double> largest_number(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504.0;
    case DType::bf16:
      return 0x1.fep127;
    case DType::f32:
      return 0x1.fffffep127;
    default:
      return std::nullopt;
  }
}

// The values of a constant of a float dtype wider than `to`, clipped; nothing if all of them fit.
std::optional<HostTensor> clipped(const Node& constant, DType to) {
  const DType from = constant.output()->type().dtype;
  const std::optional<double> limit = largest_number(to);
  if (!limit || !is_float(from) || size_of(from) <= size_of(to)) return std::nullopt;
  HostTensor tensor(from, {});
  if (constant.is("full")) {
    tensor.set(0, constant.as<ops::Full>().value);
  } else {
    tensor = *constant.as<ops::Constant>().value;
  }
  bool any = false;
  for (std::int64_t k = 0; k < tensor.numel(); ++k) {
    const double value = tensor.get(k);
    if (!std::isfinite(value) || std::abs(value) <= *limit) continue;
    tensor.set(k, std::copysign(*limit, value));
    any = true;
  }
  return any ? std::optional(std::move(tensor)) : std::nullopt;
}

Value* clip(Graph& graph, const Node& cast) {
  const Node* constant = cast.input(0)->producer();
  if (constant == nullptr || (!constant->is("full") && !constant->is("constant"))) return nullptr;
  const Type& type = cast.output()->type();
  std::optional<HostTensor> tensor = clipped(*constant, type.dtype);
  if (!tensor) return nullptr;
  if (constant->is("full")) return ops::full(graph, type.dtype, tensor->get(0), type.shape);
  HostTensor narrow(type.dtype, tensor->shape());
  for (std::int64_t k = 0; k < narrow.numel(); ++k) narrow.set(k, tensor->get(k));
  return ops::constant(graph, std::move(narrow));
}

}  // namespace

bool clip_constants(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= clip_constants(*subgraph, context);
    if (!node.is("cast") || node.output()->type().strides) continue;
    InsertBefore here(graph, &node);
    Value* value = clip(graph, node);
    if (value == nullptr) continue;
    context.remark(node, str("constants outside ", name_of(node.output()->type().dtype),
                             " became its largest number"));
    log(LogArea::passes, LogLevel::warning, context.remarks().back());
    graph.replace_all_uses(node.output(), value);
    graph.erase(&node);
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace gex::passes
