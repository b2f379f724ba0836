// Losses and their gradients, computed in the compute type.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/rows.hpp"
#include "ops/statistics.hpp"

namespace gex::ops {

namespace {

enum Reduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

// Shared by forward and backward of the negative log likelihood. Classes are on axis 1, or on axis
// 0 of a single sample.
struct NllTerms {
  std::int64_t axis;
  Value* target;  // i64, without the class axis
  Value* valid;   // bool
  Value* weight;  // of each sample, 0 where ignored
};

NllTerms nll_terms(AtenCall& c, Value* x, std::size_t target, std::size_t weight,
                   std::size_t ignore) {
  Graph& g = c.graph();
  const DType t = compute_type(x->type().dtype);
  NllTerms terms{x->type().rank() == 1 ? 0 : 1, c.tensor(target), nullptr, nullptr};
  terms.target = cast(g, terms.target, DType::i64);
  terms.valid = ne(g, terms.target, operand(c, ignore, DType::i64));
  // An ignored target may not be a valid class; class 0 is used instead.
  terms.target = where(g, terms.valid, terms.target, scalar_int(g, DType::i64, 0));
  Value* one_each = scalar(g, t, 1);
  if (!c.none(weight)) one_each = cast(g, take(g, c.tensor(weight), terms.target, 0), t);
  terms.weight = where(g, terms.valid, one_each, scalar(g, t, 0));
  return terms;
}

std::vector<Value*> nll_forward(AtenCall& c) {  // x, target, weight, reduction, ignore_index
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  const NllTerms n = nll_terms(c, x, 1, 2, 4);
  Value* picked = squeeze(g, take_along(g, x, unsqueeze(g, n.target, n.axis), n.axis), n.axis);
  Value* loss = mul(g, neg(g, wide(g, picked)), n.weight);
  // 0 * inf would be NaN: ignored samples contribute nothing whatever their value.
  loss = where(g, n.valid, loss, scalar(g, loss->type().dtype, 0));
  const Ints axes = all_axes(loss->type().rank());
  // For a single sample eager returns the total even without reduction.
  if (c.integer(3) == kNone && n.axis == 1) {
    return {to_result(c, loss), full(g, c.result(1).dtype, 0, c.result(1).shape)};
  }
  Value* total = reduce_sum(g, n.weight, axes);
  Value* sum = reduce_sum(g, loss, axes);
  if (c.integer(3) == kMean) sum = div(g, sum, total);
  return {to_result(c, sum), to_result(c, total, 1)};
}

// grad, x, target, weight, reduction, ignore_index, total_weight
std::vector<Value*> nll_backward(AtenCall& c) {
  Graph& g = c.graph();
  Value* x = c.tensor(1);
  const DType t = compute_type(x->type().dtype);
  const NllTerms n = nll_terms(c, x, 2, 3, 5);
  Value* grad = wide(g, c.tensor(0));
  if (c.integer(4) == kMean) grad = div(g, grad, cast(g, c.tensor(6), t));
  // If all samples are ignored, the mean divides by 0: that must not reach a gradient.
  Value* share = where(g, n.valid, neg(g, mul(g, grad, n.weight)), scalar(g, t, 0));
  const auto axis = static_cast<std::size_t>(n.axis);
  Shape classes(x->type().shape.size() - axis, Dim(1));
  classes[0] = x->type().shape[axis];
  Value* is_target =
      eq(g, reshape(g, iota(g, classes[0]), classes), unsqueeze(g, n.target, n.axis));
  Value* result = where(g, is_target, unsqueeze(g, share, n.axis), scalar(g, t, 0));
  return one(to_result(c, result));
}

Value* reduced_loss(Graph& g, Value* loss, std::int64_t reduction) {
  const Ints axes = all_axes(loss->type().rank());
  if (reduction == kMean) return reduce_mean(g, loss, axes);
  if (reduction == kSum) return reduce_sum(g, loss, axes);
  return loss;
}

// The gradient of a reduced loss, for each element.
Value* element_gradient(Graph& g, Value* grad, const Type& x, std::int64_t reduction) {
  Value* each = wide(g, grad);
  if (reduction != kMean) return each;
  return div(g, each, element_count(g, each->type().dtype, x.shape, all_axes(x.rank())));
}

std::vector<Value*> mse_forward(AtenCall& c) {  // x, target, reduction
  Graph& g = c.graph();
  const DType t = compute_type(c.result().dtype);
  Value* loss = square(g, sub(g, operand(c, 0, t), operand(c, 1, t)));
  return one(to_result(c, reduced_loss(g, loss, c.integer(2))));
}

std::vector<Value*> mse_backward(AtenCall& c) {  // grad, x, target, reduction
  Graph& g = c.graph();
  const DType t = compute_type(c.result().dtype);
  Value* difference = sub(g, operand(c, 1, t), operand(c, 2, t));
  Value* grad = element_gradient(g, c.tensor(0), difference->type(), c.integer(3));
  return one(to_result(c, mul(g, mul(g, difference, 2.0), grad)));
}

// x, target, weight, pos_weight, reduction
std::vector<Value*> bce_with_logits(AtenCall& c) {
  Graph& g = c.graph();
  // Eager rounds after every step; so does its decomposition.
  if (is_low_float(c.result().dtype)) return {};
  const DType t = compute_type(c.result().dtype);
  Value *x = operand(c, 0, t), *target = operand(c, 1, t);
  Value* negative = sub(g, scalar(g, t, 1), target);
  Value* log_one = apply(g, "log_sigmoid", {x});
  Value* loss = nullptr;
  if (c.none(3)) {
    loss = sub(g, mul(g, negative, x), log_one);
  } else {
    Value* factor = add(g, mul(g, sub(g, operand(c, 3, t), 1), target), 1);
    loss = sub(g, mul(g, negative, x), mul(g, factor, log_one));
  }
  if (!c.none(2)) loss = mul(g, loss, operand(c, 2, t));
  return one(to_result(c, reduced_loss(g, loss, c.integer(4))));
}

}  // namespace

void register_loss_rows() {
  register_aten_row("aten.nll_loss_forward.default", nll_forward);
  register_aten_row("aten.nll_loss_backward.default", nll_backward);
  register_aten_row("aten.nll_loss2d_forward.default", nll_forward);
  register_aten_row("aten.nll_loss2d_backward.default", nll_backward);
  register_aten_row("aten.mse_loss.default", mse_forward);
  register_aten_row("aten.mse_loss_backward.default", mse_backward);
  register_aten_row("aten.binary_cross_entropy_with_logits.default", bce_with_logits);
  register_aten_facts({"aten.nll_loss2d_forward", "aten.nll_loss_forward"},
                      {.indices = AtenFacts::Indices::classes});
  register_aten_facts({"aten.binary_cross_entropy"}, {.values = AtenFacts::Values::fractions});
}

}  // namespace gex::ops
