// What fusion asks of a single node: is it free, a contraction, how much work is it.

#include <algorithm>

#include "loop/body.hpp"
#include "loop/functions.hpp"
#include "lower/cluster.hpp"
#include "lower/views.hpp"
#include "ops/core/attributes.hpp"
#include "ops/core/choices.hpp"

namespace gex::lower {
namespace {

using loop::Indices;
using loop::Scalar;

int weight_of_prim(loop::Prim prim) {
  using loop::Prim;
  switch (prim) {
    case Prim::philox:
      return 30;
    case Prim::div:
    case Prim::sqrt:
    case Prim::rsqrt:
    case Prim::reciprocal:
    case Prim::mod:
    case Prim::fmod:
    case Prim::floordiv:
    case Prim::truncdiv:
      return 4;
    default:
      return loop::is_function(prim) ? 15 * loop::arity_of(prim) : 1;
  }
}

class OpaqueContext : public loop::BodyContext {
 public:
  using BodyContext::BodyContext;
  Scalar in(int k, Indices index) override {
    return s.load(k, in_type(k).dtype, {index.begin(), index.end()});
  }
  Scalar in(int k, Indices index, Scalar pred, Scalar fill) override {
    return s.load(k, in_type(k).dtype, {index.begin(), index.end()}, pred, fill);
  }
};

}  // namespace

bool is_conv_border(const Node& node) {
  if (!node.is("pad") || node.output()->type().rank() != 4 || node.output()->uses().empty())
    return false;
  const auto attrs = node.as<ops::Pad>();
  if (attrs.value != 0) return false;
  for (std::size_t axis = 0; axis < 4; ++axis)
    for (const Dim amount : {attrs.low[axis], attrs.high[axis]})
      if (!amount.is_const() || amount.constant() < 0 || (axis < 2 && amount.constant() != 0))
        return false;
  return std::ranges::all_of(node.output()->uses(), [&](const Use& use) {
    return use.node != nullptr && use.node->is("conv2d") && is_contraction(*use.node) &&
           use.node->input(1) != node.output();
  });
}

Value* operand_value(const Node& contraction, int operand) {
  Value* value = contraction.input(static_cast<std::size_t>(operand));
  const bool border = operand == 0 && contraction.is("conv2d") && value->producer() != nullptr &&
                      is_conv_border(*value->producer());
  return border ? value->producer()->input(0) : value;
}

bool is_free(const Node& node) {
  if (is_conv_border(node)) return true;
  if (!node.op().body || !node.op().body->map || node.num_outputs() != 1) return false;
  return node.op().has(Trait::view) || (node.op().has(Trait::pure) && node.inputs().empty());
}

bool is_contraction(const Node& node) { return ops::has_choice(node); }

bool takes_epilogue(const Node& node) {
  return is_contraction(node) && node.num_outputs() == 1 &&
         (node.op().body != nullptr || node.is("attention"));
}

int weight_of(const Node& node) {
  if (!node.op().body || !node.op().body->map || is_free(node)) return 0;
  std::vector<loop::Expr> exprs;
  loop::ScalarBuilder builder(exprs);
  OpaqueContext context(builder, node);
  std::vector<Dim> index = index_variables(node.output()->type().shape, "w");
  node.op().body->map(context, 0, index);
  int weight = 0;
  for (const loop::Expr& e : exprs) {
    if (e.kind == loop::Expr::Kind::prim) weight += weight_of_prim(e.prim);
  }
  return weight;
}

}  // namespace gex::lower
