#include "passes/canonicalise.hpp"

#include <array>
#include <cmath>

#include "ops/core/build.hpp"
#include "passes/dtypes.hpp"
#include "passes/engine/rules.hpp"
#include "passes/splat.hpp"

namespace gex::passes {
namespace {

// f(x) -> x if the types are equal: reshape, expand, transpose, slice, cast that change nothing.
Value* drop_identity(Graph&, Node& node) {
  if (node.inputs().size() != 1 || node.num_outputs() != 1) return nullptr;
  Value* x = node.input(0);
  const Type& out = node.output()->type();
  if (x->type().shape != out.shape || x->type().dtype != out.dtype) return nullptr;
  if (node.is("reshape") || node.is("expand") || node.is("cast")) return x;
  if (node.is("transpose")) {
    ops::Ints perm = node.as<ops::Transpose>().perm;
    for (std::size_t d = 0; d < perm.size(); ++d) {
      if (perm[d] != static_cast<std::int64_t>(d)) return nullptr;
    }
    return x;
  }
  if (node.is("slice")) {
    // Same shape, so it starts at 0 with step 1 unless it is reversed.
    auto attrs = node.as<ops::Slice>();
    for (std::size_t d = 0; d < attrs.steps.size(); ++d) {
      if (attrs.steps[d] != 1 || !(attrs.starts[d] == Dim(0))) return nullptr;
    }
    return x;
  }
  const bool rounds = node.is("ceil") || node.is("floor") || node.is("round") || node.is("trunc");
  return rounds && !is_float(out.dtype) ? x : nullptr;
}

// reshape(reshape(x)) -> reshape(x)
Value* join_reshapes(Graph& graph, Node& node) {
  if (!node.is("reshape")) return nullptr;
  Node* inner = node.input(0)->producer();
  if (inner == nullptr || !inner->is("reshape")) return nullptr;
  return ops::reshape(graph, inner->input(0), node.output()->type().shape);
}

// transpose(transpose(x, p), q) -> transpose(x, p o q)
Value* join_transposes(Graph& graph, Node& node) {
  if (!node.is("transpose")) return nullptr;
  Node* inner = node.input(0)->producer();
  if (inner == nullptr || !inner->is("transpose")) return nullptr;
  ops::Ints outer = node.as<ops::Transpose>().perm, before = inner->as<ops::Transpose>().perm;
  for (std::int64_t& axis : outer) axis = before[static_cast<std::size_t>(axis)];
  return ops::transpose(graph, inner->input(0), outer);
}

// x * 1 -> x,  1 * x -> x,  x / 1 -> x,  x - 0 -> x,  x + -0 -> x: exact for every x. Not x + 0: -0
// + 0 is +0. If the other operand makes x larger, x is broadcast.
Value* drop_neutral(Graph& graph, Node& node) {
  if (node.inputs().size() != 2 || node.num_outputs() != 1) return nullptr;
  const Type& out = node.output()->type();
  auto keeps = [&](std::size_t kept, double neutral) -> Value* {
    Value* x = node.input(kept);
    if (x->type().dtype != out.dtype) return nullptr;
    std::optional<double> value = splat(node.input(1 - kept));
    if (!value || *value != neutral || std::signbit(*value) != std::signbit(neutral))
      return nullptr;
    return x->type().shape == out.shape ? x : ops::expand(graph, x, out.shape);
  };
  if (node.is("mul") && out.dtype != DType::boolean) {
    if (Value* x = keeps(0, 1)) return x;
    return keeps(1, 1);
  }
  if (node.is("div")) return keeps(0, 1);
  // x - (-0) is x + 0 and turns -0 into +0.
  if (node.is("sub")) return keeps(0, 0);
  if (node.is("add")) {
    const double neutral = is_int(out.dtype) ? 0.0 : -0.0;
    if (Value* x = keeps(0, neutral)) return x;
    return keeps(1, neutral);
  }
  return nullptr;
}

// f(f(x)) -> f(x) for idempotent f: relu, abs, floor, ...
Value* drop_repeated(Graph&, Node& node) {
  if (!node.op().has(Trait::idempotent) || node.inputs().size() != 1 || node.num_outputs() != 1)
    return nullptr;
  Node* inner = node.input(0)->producer();
  if (inner == nullptr || &inner->op() != &node.op()) return nullptr;
  for (std::size_t k = 0; k < node.attrs().size(); ++k) {
    if (!attr_equal(node.attrs()[k], inner->attrs()[k])) return nullptr;
  }
  return inner->output();
}

// cast(cast(x, wide), t) -> cast(x, t) where `wide` holds every value of x's dtype.
Value* join_casts(Graph& graph, Node& node) {
  if (!node.is("cast")) return nullptr;
  Node* inner = node.input(0)->producer();
  if (inner == nullptr || !inner->is("cast")) return nullptr;
  if (!holds_all_values(inner->output()->type().dtype, inner->input(0)->type().dtype))
    return nullptr;
  return ops::cast(graph, inner->input(0), node.output()->type().dtype);
}

// f(f(x)) -> x for f that is its own inverse.
Value* drop_involution(Graph&, Node& node) {
  if (!node.is("neg") && !node.is("bit_not")) return nullptr;
  Node* inner = producer_of(node.input(0), node.op().name);
  return inner == nullptr ? nullptr : inner->input(0);
}

constexpr std::array<Rule, 7> kCanonicalRules = {drop_identity,  join_reshapes, join_transposes,
                                                 drop_neutral,   drop_repeated, join_casts,
                                                 drop_involution};

}  // namespace

bool canonicalise(Graph& graph, PassContext& context) {
  return apply_rules(graph, context, kCanonicalRules);
}

}  // namespace gex::passes
