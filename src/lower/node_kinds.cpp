// Properties of a single node for fusion: is it free, is it a problem, how much does it cost.

#include "loop/body.hpp"
#include "loop/functions.hpp"
#include "lower/cluster.hpp"
#include "lower/views.hpp"
#include "ops/core/problem_rule.hpp"

namespace gex::lower {
namespace {

using loop::Indices;
using loop::Scalar;

class OpaqueContext : public loop::BodyContext {
 public:
  using BodyContext::BodyContext;
  Scalar in(int k, Indices index) override {
    return s.load(k, in_type(k).dtype, {index.begin(), index.end()});
  }
  Scalar in(int k, Indices index, Scalar pred, Scalar fill) override {
    if (!s.is_true(pred)) ++conditional_reads;
    return s.load(k, in_type(k).dtype, {index.begin(), index.end()}, pred, fill);
  }

  int conditional_reads = 0;
};

}  // namespace

Value* operand_value(const Node& problem, int operand) {
  if (is_problem(problem) && problem.op().problem->operand_value != nullptr)
    return problem.op().problem->operand_value(problem, operand);
  return problem.input(static_cast<std::size_t>(operand));
}

bool is_free(const Node& node) {
  if (ops::is_conv_border(node)) return true;
  if (!node.op().body || !node.op().body->map || node.num_outputs() != 1) return false;
  return node.op().has(Trait::view) || (node.op().has(Trait::pure) && node.inputs().empty());
}

bool is_problem(const Node& node) { return ops::has_problem(node); }

bool takes_epilogue(const Node& node) { return is_problem(node) && node.op().problem->epilogue; }

int conditional_reads(const Node& node) {
  if (!node.op().body || !node.op().body->map || ops::is_conv_border(node)) return 0;
  std::vector<loop::Expr> exprs;
  loop::ScalarBuilder builder(exprs);
  OpaqueContext context(builder, node);
  std::vector<Dim> index = index_variables(node.output()->type().shape, "w");
  node.op().body->map(context, 0, index);
  return context.conditional_reads;
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
    if (e.kind == loop::Expr::Kind::prim) weight += loop::cost_of(e.prim);
  }
  return weight;
}

}  // namespace gex::lower
