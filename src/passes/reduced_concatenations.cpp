#include "passes/reduced_concatenations.hpp"

#include <algorithm>
#include <array>

#include "ops/core/build.hpp"
#include "ops/core/families.hpp"
#include "passes/engine/rules.hpp"

namespace gex::passes {
namespace {

// One kernel should hold all parts.
constexpr std::size_t kMostParts = 64;

using Combine = Value* (*)(Graph&, Value*, Value*);

Combine combine_of(const Node& node) {
  if (node.is("reduce_sum") || node.is("reduce_mean"))
    return [](Graph& g, Value* a, Value* b) { return ops::add(g, a, b); };
  if (node.is("reduce_max"))
    return [](Graph& g, Value* a, Value* b) { return ops::maximum(g, a, b); };
  if (node.is("reduce_min"))
    return [](Graph& g, Value* a, Value* b) { return ops::minimum(g, a, b); };
  return nullptr;
}

bool has_one_element_each(const Node& cat, std::size_t axis) {
  return std::ranges::all_of(cat.inputs(),
                             [&](const Value* part) { return part->type().shape[axis] == Dim(1); });
}

// Pairs, then pairs of pairs: errors grow with the logarithm of the number of parts.
Value* combine_pairs(Graph& graph, std::vector<Value*> parts, Combine combine) {
  while (parts.size() > 1) {
    std::vector<Value*> halved;
    for (std::size_t k = 0; k + 1 < parts.size(); k += 2)
      halved.push_back(combine(graph, parts[k], parts[k + 1]));
    if (parts.size() % 2 != 0) halved.push_back(parts.back());
    parts = std::move(halved);
  }
  return parts[0];
}

Value* reduce_parts(Graph& graph, Node& node) {
  const Combine combine = combine_of(node);
  if (combine == nullptr) return nullptr;
  const Node* cat = producer_of(node.input(0), "cat");
  if (cat == nullptr || cat->output()->uses().size() != 1 || cat->inputs().size() > kMostParts)
    return nullptr;
  const std::int64_t axis = cat->as<ops::Axis>().axis;
  if (node.as<ops::Reduce>().axes != ops::Ints{axis}) return nullptr;
  if (!has_one_element_each(*cat, static_cast<std::size_t>(axis))) return nullptr;
  const Type& type = node.output()->type();
  // Low floats are rounded once.
  const DType t = is_low_float(type.dtype) ? DType::f32 : type.dtype;
  std::vector<Value*> parts;
  for (Value* part : cat->inputs()) parts.push_back(ops::cast(graph, part, t));
  const auto count = static_cast<double>(parts.size());
  Value* whole = combine_pairs(graph, std::move(parts), combine);
  if (node.is("reduce_mean")) whole = ops::div(graph, whole, count);
  return ops::reshape(graph, ops::cast(graph, whole, type.dtype), type.shape);
}

constexpr std::array kRules = {Rule(reduce_parts)};

}  // namespace

bool reduced_parts(Graph& graph, PassContext& context) {
  return apply_rules(graph, context, kRules);
}

}  // namespace gex::passes
