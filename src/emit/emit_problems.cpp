// Launches of problems that take no epilogue: gradients of convolutions, sorting, grouped products.

#include <algorithm>

#include "emit/conv_launch.hpp"
#include "emit/emitter.hpp"
#include "ops/conv.hpp"
#include "ops/sort.hpp"
#include "problems/sort.hpp"

namespace gex::emit {

ProblemLaunch Emitter::plan_conv2d_weight_grad(const lower::Unit& unit) {
  const Node& node = *unit.anchor;
  auto attrs = node.as<ops::ConvWeightGrad>();
  const Type& x_type = node.input(0)->type();
  const Type& grad_type = node.input(1)->type();
  const Type& result_type = node.output()->type();
  Operand x = operand(node.input(0)), grad = operand(node.input(1));
  const problems::Conv2dProblem problem =
      conv_problem(attrs, x_type.dtype, grad_type.dtype, result_type.dtype);
  ProblemLaunch plan;
  plan.name = "conv2d_weight_grad";
  plan.operands = {window(x.buffer, x.offset), window(grad.buffer, grad.offset)};
  const std::vector<Dim> strides = lower::memory_strides(*node.output());
  plan.dims = conv_dims({x_type.shape, x.strides}, {result_type.shape, strides},
                        {grad_type.shape, grad.strides});
  const Dim taps = result_type.shape[1] * result_type.shape[2] * result_type.shape[3];
  plan.work = grad_type.numel() * taps;
  plan.problem = problems::Conv2dWeightGradProblem{problem};
  return plan;
}

ProblemLaunch Emitter::plan_conv2d_input_grad(const lower::Unit& unit) {
  const Node& node = *unit.anchor;
  auto attrs = node.as<ops::ConvTranspose>();
  const Type& grad_type = node.input(0)->type();
  const Type& w_type = node.input(1)->type();
  const Type& x_type = node.output()->type();
  Operand grad = operand(node.input(0)), w = operand(node.input(1));
  if (!(grad.strides[3] == Dim(1))) {
    program::BufferId copy = add_temp(grad_type, "dense");
    std::vector<Dim> dense = dense_strides(grad_type.shape);
    emit_copy(copy, dense, grad.buffer, grad.strides, grad.offset, grad_type, "layout");
    grad = {copy, dense, Dim(0)};
  }
  const problems::Conv2dProblem problem =
      conv_problem(attrs, x_type.dtype, w_type.dtype, grad_type.dtype);
  ProblemLaunch plan;
  plan.name = "conv2d_input_grad";
  plan.operands = {window(grad.buffer, grad.offset), window(w.buffer, w.offset)};
  const std::vector<Dim> strides = lower::memory_strides(*node.output());
  plan.dims = conv_dims({x_type.shape, strides}, {w_type.shape, w.strides},
                        {grad_type.shape, grad.strides});
  plan.work = grad_type.numel() * w_type.shape[1] * w_type.shape[2] * w_type.shape[3];
  plan.problem = problems::Conv2dInputGradProblem{problem};
  return plan;
}

ProblemLaunch Emitter::plan_sort(const lower::Unit& unit) {
  const Node& node = *unit.anchor;
  const bool all = node.is("sort");
  const auto axis =
      static_cast<std::size_t>(all ? node.as<ops::Sort>().axis : node.as<ops::TopK>().axis);
  const Type& x_type = node.input(0)->type();
  Operand x = operand(node.input(0));
  auto asked_for = [&](std::size_t k) {
    return std::find(unit.outputs.begin(), unit.outputs.end(), node.output(k)) !=
           unit.outputs.end();
  };
  problems::SortProblem problem;
  problem.dtype = x_type.dtype;
  problem.descending = all ? node.as<ops::Sort>().descending : node.as<ops::TopK>().largest;
  const bool stable = all ? node.as<ops::Sort>().stable : node.as<ops::TopK>().stable;
  problem.ties = stable ? Ties::stable : all ? Ties::as_sort : Ties::as_topk;
  problem.batch_rank = x_type.rank() - 1;
  problem.values = asked_for(0);
  problem.indices = asked_for(1);
  ProblemLaunch plan;
  plan.name = node.op().name;
  plan.operands = {window(x.buffer, x.offset)};
  const Dim length = x_type.shape[axis];
  plan.dims = {length, node.output()->type().shape[axis]};
  Dim rows = 1;
  for (std::size_t d = 0; d < x_type.shape.size(); ++d) {
    if (d == axis) continue;
    plan.dims.push_back(x_type.shape[d]);
    rows *= x_type.shape[d];
  }
  auto push = [&](std::vector<Dim> strides) {
    const Dim along = strides[axis];
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
    plan.dims.insert(plan.dims.end(), strides.begin(), strides.end());
    plan.dims.push_back(along);
  };
  push(x.strides);
  for (std::size_t k = 0; k < 2; ++k) {
    if (asked_for(k)) push(lower::memory_strides(*node.output(k)));
  }
  constexpr int kStepsForEachElement = 16;
  plan.work = rows * length * Dim(kStepsForEachElement);
  plan.problem = problem;
  return plan;
}

// Rows in groups times a matrix of each group, or the gradient of those matrices.
ProblemLaunch Emitter::plan_grouped(const lower::Unit& unit) {
  const Node& node = *unit.anchor;
  const bool weight_grad = node.is("grouped_weight_grad");
  const Type& a_type = node.input(0)->type();
  const Type& b_type = node.input(1)->type();
  const Type& ends_type = node.input(2)->type();
  Operand a = operand(node.input(0)), b = operand(node.input(1));
  problems::GroupedMatmulProblem problem;
  problem.product.a = a_type.dtype;
  problem.product.b = b_type.dtype;
  problem.product.c = node.output()->type().dtype;
  problem.product.any_rows = placement_.any_batch;
  problem.product.keep_subnormals = options_.keep_subnormals;
  problem.ends = ends_type.dtype;
  ProblemLaunch plan;
  plan.name = node.op().name;
  // A view of the ends may have any step: a copy is dense.
  Operand ends = placed(node.input(2));
  GEX_CHECK(ends.strides[0] == Dim(1) || ends_type.shape[0] == Dim(1), "ends with a step");
  plan.operands = {window(a.buffer, a.offset), window(b.buffer, b.offset), ends.buffer};
  const Dim rows = a_type.shape[0], depth = a_type.shape[1], columns = b_type.shape.back();
  std::vector<Dim> c = lower::memory_strides(*node.output());
  if (weight_grad) {
    plan.dims = {Dim(1), Dim(1), depth, columns, rows};
    plan.dims.insert(plan.dims.end(), {Dim(0), Dim(0), a.strides[1], a.strides[0]});
    plan.dims.insert(plan.dims.end(), {Dim(0), Dim(0), b.strides[0], b.strides[1]});
    plan.dims.insert(plan.dims.end(), {c[0], Dim(0), c[1], c[2], ends_type.shape[0]});
    plan.problem = problems::GroupedWeightGradProblem{problem};
  } else {
    plan.dims = {Dim(1), Dim(1), rows, columns, depth};
    plan.dims.insert(plan.dims.end(), {Dim(0), Dim(0), a.strides[0], a.strides[1]});
    plan.dims.insert(plan.dims.end(), {b.strides[0], Dim(0), b.strides[1], b.strides[2]});
    plan.dims.insert(plan.dims.end(), {Dim(0), Dim(0), c[0], c[1], ends_type.shape[0]});
    plan.problem = problem;
  }
  plan.work = rows * columns * depth;
  return plan;
}

}  // namespace gex::emit
