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

// Integer ops that mean the same on sizes.
std::optional<Dim> combine(const Node& node, Dim a, Dim b) {
  if (node.is("add")) return a + b;
  if (node.is("sub")) return a - b;
  if (node.is("mul")) return a * b;
  if (node.is("minimum")) return min(a, b);
  if (node.is("maximum")) return max(a, b);
  // Divisors that can't be zero; both round down as long as nothing is negative.
  if (!provably_nonnegative(a) || known_lt(Dim(0), b) != true) return std::nullopt;
  if (node.is("floor_div") || node.is("trunc_div")) return floordiv(a, b);
  if (node.is("mod") || node.is("fmod")) return mod(a, b);
  return std::nullopt;
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
  if (node.inputs().size() != 2 || node.input(0) == nullptr || node.input(1) == nullptr)
    return nullptr;
  if (!producer_of(node.input(0), "dim") && !producer_of(node.input(1), "dim")) return nullptr;
  if (node.output()->type().dtype != DType::i64) return nullptr;
  const std::optional<Dim> a = as_size(node.input(0)), b = as_size(node.input(1));
  if (!a || !b) return nullptr;
  const std::optional<Dim> size = combine(node, *a, *b);
  return size ? size_value(graph, *size) : nullptr;
}

constexpr std::array<Rule, 2> kShapeRules = {known_size, arithmetic};

}  // namespace

bool fold_shapes(Graph& graph, PassContext& context) {
  return apply_rules(graph, context, kShapeRules);
}

}  // namespace gex::passes
