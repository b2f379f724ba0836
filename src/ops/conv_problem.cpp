// The convolution over two axes and its gradients as problems.

#include <algorithm>
#include <vector>

#include "ops/conv.hpp"
#include "ops/core/integer_products.hpp"
#include "ops/problem_rules.hpp"

namespace gex::ops {

namespace {

// The memory layout of one of its three tensors.
struct ConvOperand {
  const Shape& shape;
  const std::vector<Dim>& strides;
};

// `attrs`: of any of the three ops. x, w, y: dtypes of the kernel's problem.
template <class Attributes>
problems::Conv2dProblem conv_problem(const Attributes& attrs, DType x, DType w, DType y) {
  problems::Conv2dProblem problem;
  problem.x = x;
  problem.w = w;
  problem.y = y;
  for (std::size_t k = 0; k < 2; ++k) {
    problem.stride[k] = attrs.stride[k];
    problem.dilation[k] = attrs.dilation[k];
    problem.pad[k] = attrs.padding[k];
  }
  problem.groups = attrs.groups;
  return problem;
}

// In the order of problems::conv2d_dims.
std::vector<Dim> conv_dims(const ConvOperand& x, const ConvOperand& w, const ConvOperand& y) {
  std::vector<Dim> dims = x.shape;
  dims.insert(dims.end(), y.shape.begin() + 1, y.shape.end());
  dims.insert(dims.end(), w.shape.begin() + 2, w.shape.end());
  for (const std::vector<Dim>* strides : {&x.strides, &w.strides, &y.strides})
    dims.insert(dims.end(), strides->begin(), strides->end());
  GEX_CHECK(dims.size() == problems::conv2d_dims::count, "dims of a convolution");
  return dims;
}

// Multiplications per element of the result or of its gradient.
Dim taps_of(const Shape& weights) { return weights[1] * weights[2] * weights[3]; }

// The input of a conv2d without the border that its kernel computes itself.
Value* image_of(const Node& conv) {
  Value* x = conv.input(0);
  const bool has_border = x->producer() != nullptr && is_conv_border(*x->producer());
  return has_border ? x->producer()->input(0) : x;
}

Value* without_border(const Node& conv, int operand) {
  return operand == 0 ? image_of(conv) : conv.input(static_cast<std::size_t>(operand));
}

// Kernels read images row by row. Those with few channels, as first layers have, are cheap to read
// in any order.
bool channels_are_last(const Type& image, const std::vector<Dim>& strides) {
  constexpr std::int64_t kFewChannels = 4;
  return !(strides[3] == Dim(1)) && image.shape[1].range().hi > kFewChannels;
}

ProblemLaunch conv2d_launch(ProblemContext& c) {
  const Value* image = image_of(c.node);
  auto attrs = c.node.as<Conv>();
  if (image != c.node.input(0)) {
    const auto border = c.node.input(0)->producer()->as<Pad>();
    for (std::size_t k = 0; k < 2; ++k) attrs.padding[k] += border.low[k + 2].constant();
  }
  const Type& x_type = image->type();
  const Type& w_type = c.node.input(1)->type();
  const Type& y_type = c.node.output()->type();
  StridedOperand x = c.operand(0), w = c.operand(1);
  problems::Conv2dProblem problem = conv_problem(
      attrs, x_type.dtype, w_type.dtype, c.has_epilogue ? accumulated(y_type.dtype) : y_type.dtype);
  problem.x_computed = problems::contains(c.computed, 0);
  if (!problem.x_computed && channels_are_last(x_type, x.strides)) x = c.dense_copy(x, x_type);
  const std::vector<Dim> y_strides = result_strides(c.node);
  ProblemLaunch launch;
  launch.problem = problem;
  launch.dims =
      conv_dims({x_type.shape, x.strides}, {w_type.shape, w.strides}, {y_type.shape, y_strides});
  launch.work = y_type.numel() * taps_of(w_type.shape);
  launch.operands = {std::move(x), std::move(w)};
  return launch;
}

ProblemLaunch conv2d_transposed_launch(ProblemContext& c) {
  const Type& x_type = c.node.input(0)->type();
  const Type& w_type = c.node.input(1)->type();
  const Type& y_type = c.node.output()->type();
  const auto attrs = c.node.as<ConvTranspose>();
  StridedOperand x = c.operand(0), w = c.operand(1);
  std::swap(w.strides[0], w.strides[1]);  // [C, O, KH, KW]
  Conv plane;
  plane.padding = attrs.padding;
  problems::Conv2dProblem problem = conv_problem(
      plane, x_type.dtype, w_type.dtype, c.has_epilogue ? accumulated(y_type.dtype) : y_type.dtype);
  for (std::size_t k = 0; k < 2; ++k) problem.up[k] = attrs.stride[k];
  problem.x_computed = problems::contains(c.computed, 0);
  ProblemLaunch launch;
  launch.problem = problem;
  launch.dims = conv_dims({x_type.shape, x.strides}, {w_type.shape, w.strides},
                          {y_type.shape, result_strides(c.node)});
  launch.work = x_type.numel() * taps_of(w_type.shape);
  launch.operands = {std::move(x), std::move(w)};
  return launch;
}

ProblemLaunch integer_conv2d_launch(ProblemContext& c) {
  const Type& x_type = c.node.input(0)->type();
  const Type& w_type = c.node.input(1)->type();
  const Type& y_type = c.node.output()->type();
  const auto attrs = c.node.as<IntegerConv>();
  StridedOperand x = c.operand(0), w = c.operand(1);
  Conv conv;
  conv.stride = attrs.stride;
  conv.dilation = attrs.dilation;
  conv.padding = attrs.low;
  conv.groups = attrs.groups;
  problems::Conv2dProblem problem = conv_problem(conv, x_type.dtype, w_type.dtype, DType::i32);
  problem.border = attrs.border;
  ProblemLaunch launch;
  launch.problem = problem;
  launch.dims = conv_dims({x_type.shape, x.strides}, {w_type.shape, w.strides},
                          {y_type.shape, result_strides(c.node)});
  launch.work = y_type.numel() * taps_of(w_type.shape);
  launch.operands = {std::move(x), std::move(w)};
  return launch;
}

ProblemLaunch conv2d_weight_grad_launch(ProblemContext& c) {
  const Type& x_type = c.node.input(0)->type();
  const Type& grad_type = c.node.input(1)->type();
  const Type& w_type = c.node.output()->type();
  StridedOperand x = c.operand(0), grad = c.operand(1);
  const std::vector<Dim> w_strides = result_strides(c.node);
  ProblemLaunch launch;
  launch.problem = problems::Conv2dWeightGradProblem{
      conv_problem(c.node.as<ConvWeightGrad>(), x_type.dtype, grad_type.dtype, w_type.dtype)};
  launch.dims = conv_dims({x_type.shape, x.strides}, {w_type.shape, w_strides},
                          {grad_type.shape, grad.strides});
  launch.work = grad_type.numel() * taps_of(w_type.shape);
  launch.operands = {std::move(x), std::move(grad)};
  return launch;
}

ProblemLaunch conv2d_input_grad_launch(ProblemContext& c) {
  const Type& grad_type = c.node.input(0)->type();
  const Type& w_type = c.node.input(1)->type();
  const Type& x_type = c.node.output()->type();
  StridedOperand grad = c.operand(0), w = c.operand(1);
  if (!(grad.strides[3] == Dim(1))) grad = c.dense_copy(grad, grad_type);
  const std::vector<Dim> x_strides = result_strides(c.node);
  ProblemLaunch launch;
  launch.problem = problems::Conv2dInputGradProblem{
      conv_problem(c.node.as<ConvTranspose>(), x_type.dtype, w_type.dtype, grad_type.dtype)};
  launch.dims = conv_dims({x_type.shape, x_strides}, {w_type.shape, w.strides},
                          {grad_type.shape, grad.strides});
  launch.work = grad_type.numel() * taps_of(w_type.shape);
  launch.operands = {std::move(grad), std::move(w)};
  return launch;
}

std::vector<int> conv2d_computable(const Node& node) {
  if (node.as<Conv>().groups != 1) return {};
  return {0};
}

std::vector<int> first_operand(const Node&) { return {0}; }

std::int64_t image_reads(const Node&, int, const CostModel& costs) {
  return costs.conv_image_reads;
}

}  // namespace

bool is_image_border(const Node& node) {
  if (!node.is("pad") || node.output()->type().rank() != 4) return false;
  const auto attrs = node.as<Pad>();
  if (attrs.value != 0) return false;
  for (std::size_t axis = 0; axis < 4; ++axis)
    for (const Dim amount : {attrs.low[axis], attrs.high[axis]})
      if (!amount.is_const() || amount.constant() < 0 || (axis < 2 && amount.constant() != 0))
        return false;
  return true;
}

bool is_conv_border(const Node& node) {
  if (!is_image_border(node) || node.output()->uses().empty()) return false;
  return std::ranges::all_of(node.output()->uses(), [&](const Use& use) {
    return use.node != nullptr && use.node->is("conv2d") && has_problem(*use.node) &&
           use.node->input(1) != node.output();
  });
}

ProblemRule conv2d_rule() {
  ProblemRule rule;
  rule.launch = conv2d_launch;
  rule.epilogue = true;
  rule.packed = 1;
  rule.prologues = {.operands = conv2d_computable, .times_read = image_reads, .whole_rows = false};
  rule.operand_value = without_border;
  return rule;
}

ProblemRule conv2d_transposed_rule() {
  ProblemRule rule;
  rule.launch = conv2d_transposed_launch;
  rule.epilogue = true;
  rule.packed = 1;
  rule.prologues = {.operands = first_operand, .times_read = image_reads, .whole_rows = false};
  return rule;
}

ProblemRule integer_conv2d_rule() {
  ProblemRule rule;
  rule.launch = integer_conv2d_launch;
  rule.epilogue = true;
  rule.packed = 1;
  return rule;
}

ProblemRule conv2d_weight_grad_rule() { return {.launch = conv2d_weight_grad_launch}; }
ProblemRule conv2d_input_grad_rule() { return {.launch = conv2d_input_grad_launch}; }

}  // namespace gex::ops
