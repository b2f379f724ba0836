#include "passes/fold_shapes.hpp"

#include <array>

#include "ops/core/build.hpp"
#include "passes/engine/rules.hpp"
#include "passes/splat.hpp"

namespace gex::passes {
namespace {

// An i64 number as a size, if the graph says which. Doubles are exact up to here.
std::optional<Dim> as_size(const Value* v) {
  constexpr double kExact = 0x1p53;
  if (v->type().is_token() || v->type().dtype != DType::i64 || v->type().rank() != 0)
    return std::nullopt;
  if (const Node* node = producer_of(v, "dim")) return node->as<ops::OneDim>().size;
  const std::optional<double> number = splat(v);
  if (!number || !(*number > -kExact && *number < kExact)) return std::nullopt;
  return Dim(static_cast<std::int64_t>(*number));
}

Value* size_value(Graph& graph, Dim size) {
  if (size.is_const()) return ops::scalar_int(graph, DType::i64, size.constant());
  return ops::dim_value(graph, size);
}

// dim(4) -> 4
Value* known_size(Graph& graph, Node& node) {
  if (!node.is("dim")) return nullptr;
  const Dim size = node.as<ops::OneDim>().size;
  return size.is_const() ? size_value(graph, size) : nullptr;
}

// f(dim(a), dim(b)) -> dim(f(a, b))
Value* arithmetic(Graph& graph, Node& node) {
  if (node.op().on_sizes == nullptr) return nullptr;
  if (!producer_of(node.input(0), "dim") && !producer_of(node.input(1), "dim")) return nullptr;
  if (node.output()->type().dtype != DType::i64) return nullptr;
  const std::optional<Dim> a = as_size(node.input(0)), b = as_size(node.input(1));
  if (!a || !b) return nullptr;
  const std::optional<Dim> size = node.op().on_sizes(*a, *b);
  return size ? size_value(graph, *size) : nullptr;
}

constexpr std::array<Rule, 2> kShapeRules = {known_size, arithmetic};

}  // namespace

bool fold_shapes(Graph& graph, PassContext& context) {
  return apply_rules(graph, context, kShapeRules);
}

}  // namespace gex::passes
