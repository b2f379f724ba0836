#include "passes/canonicalise.hpp"

#include <array>
#include <cmath>

#include "ops/build.hpp"
#include "passes/splat.hpp"

namespace gex::passes {
namespace {

using Rule = Value* (*)(Graph&, Node&);

// f(x) -> x where the types are equal: reshape, expand, transpose, slice, cast that change nothing.
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
    // Same shape, so it starts at 0 with step 1 unless it reads backwards.
    auto attrs = node.as<ops::Slice>();
    for (std::size_t d = 0; d < attrs.steps.size(); ++d) {
      if (attrs.steps[d] != 1 || !(attrs.starts[d] == Dim(0))) return nullptr;
    }
    return x;
  }
  return nullptr;
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

// x * 1 -> x,  1 * x -> x,  x / 1 -> x,  x - 0 -> x: exact for every x. Not x + 0: -0 + 0 is +0.
Value* drop_neutral(Graph&, Node& node) {
  if (node.inputs().size() != 2 || node.num_outputs() != 1) return nullptr;
  const Type& out = node.output()->type();
  auto keeps = [&](std::size_t kept, double neutral) -> Value* {
    Value* x = node.input(kept);
    std::optional<double> value = splat(node.input(1 - kept));
    bool same = x->type().shape == out.shape && x->type().dtype == out.dtype;
    return same && value && *value == neutral ? x : nullptr;
  };
  if (node.is("mul") && out.dtype != DType::boolean) {
    if (Value* x = keeps(0, 1)) return x;
    return keeps(1, 1);
  }
  if (node.is("div")) return keeps(0, 1);
  if (node.is("sub")) {
    // x - (-0) is x + 0 and turns -0 into +0.
    Value* x = keeps(0, 0);
    return x != nullptr && !std::signbit(*splat(node.input(1))) ? x : nullptr;
  }
  if (node.is("add") && is_int(out.dtype)) {
    if (Value* x = keeps(0, 0)) return x;
    return keeps(1, 0);
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
  DType from = inner->input(0)->type().dtype, wide = inner->output()->type().dtype;
  bool lossless =
      from == wide || (is_low_float(from) && (wide == DType::f32 || wide == DType::f64)) ||
      (from == DType::f32 && wide == DType::f64) || (is_int(from) && wide == DType::i64) ||
      (from == DType::boolean && wide != DType::boolean);
  if (!lossless) return nullptr;
  return ops::cast(graph, inner->input(0), node.output()->type().dtype);
}

constexpr std::array<Rule, 6> kRules = {drop_identity, join_reshapes, join_transposes,
                                        drop_neutral,  drop_repeated, join_casts};

bool is_graph_output(const Node& node) {
  for (std::size_t k = 0; k < node.num_outputs(); ++k) {
    for (const Use& use : node.output(k)->uses()) {
      if (use.node == nullptr) return true;
    }
  }
  return false;
}

}  // namespace

bool canonicalise(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= canonicalise(*subgraph, context);
    if (!node.op().has(Trait::pure)) continue;
    // A layout promised for a graph output belongs to this very value: it can't be handed on.
    bool promised = is_graph_output(node);
    if (promised && node.output()->type().strides) continue;
    for (Rule rule : kRules) {
      InsertBefore here(graph, &node);
      graph.set_location(node.location());
      Value* simpler = rule(graph, node);
      graph.set_location({});
      if (simpler == nullptr) continue;
      if (promised && simpler->type().strides) continue;
      graph.replace_all_uses(node.output(), simpler);
      graph.erase(&node);
      context.count();
      changed = true;
      break;
    }
  }
  return changed;
}

}  // namespace gex::passes
