// Softmax and related ops: compositions of reductions and elementwise ops, which fusion makes one
// kernel. Computed in the compute type, rounded once.

#include <limits>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

Type axis_type(const InferContext& c) {
  require_dtype(c, 0, floating);
  const std::int64_t axis = c.as<Axis>().axis;
  if (axis < 0 || axis >= std::max(c.in(0).rank(), 1)) {
    fail(ErrorCode::invalid_argument, c.op_name, ": axis ", axis, " is out of range for ", c.in(0));
  }
  return Type::tensor(c.in(0).dtype, c.in(0).shape);
}

Value* in_compute_type(Graph& g, Value* x) { return cast(g, x, compute_type(x->type().dtype)); }

std::vector<Value*> expand_softmax(Graph& g, const Node& n) {
  const Ints axis{n.as<Axis>().axis};
  if (n.input(0)->type().numel() == Dim(0)) return {n.input(0)};
  Value* x = in_compute_type(g, n.input(0));
  Value* e = exp(g, sub(g, x, reduce_max(g, x, axis, true)));
  Value* y = div(g, e, reduce_sum(g, e, axis, true));
  return {cast(g, y, n.input(0)->type().dtype)};
}

std::vector<Value*> expand_log_softmax(Graph& g, const Node& n) {
  const Ints axis{n.as<Axis>().axis};
  if (n.input(0)->type().numel() == Dim(0)) return {n.input(0)};
  Value* x = in_compute_type(g, n.input(0));
  Value* shifted = sub(g, x, reduce_max(g, x, axis, true));
  Value* sum = reduce_sum(g, exp(g, shifted), axis, true);
  return {cast(g, sub(g, shifted, log(g, sum)), n.input(0)->type().dtype)};
}

// Argument 1 is the axis; the result's dtype is that of the computation.
AtenImport import_along_axis(const char* op_name) {
  return [=](AtenCall& c) {
    Value* x = operand(c, 0, c.result().dtype);
    const Axis axis{normal_axis(c.integer(1), x->type().rank())};
    return one(apply(c.graph(), op_name, {x}, axis));
  };
}

// Rows that are all -inf become zero instead of NaN.
std::vector<Value*> import_safe_softmax(AtenCall& c) {
  Graph& g = c.graph();
  Value* x = operand(c, 0, c.result().dtype);
  const std::int64_t axis = normal_axis(c.integer(1), x->type().rank());
  Value* lowest = scalar(g, x->type().dtype, -std::numeric_limits<double>::infinity());
  Value* masked = reduce(g, "reduce_all", eq(g, x, lowest), {axis}, true);
  Value* y = softmax(g, x, axis);
  return one(where(g, masked, scalar(g, y->type().dtype, 0), y));
}

std::vector<Value*> import_logsumexp(AtenCall& c) {
  Graph& g = c.graph();
  const DType t = compute_type(c.result().dtype);
  Value* x = operand(c, 0, t);
  const Ints axes = axes_argument(c, 1, x->type().rank());
  Value* largest = reduce_max(g, x, axes, true);
  // An infinite maximum would make inf - inf; eager treats it as zero.
  const double inf = std::numeric_limits<double>::infinity();
  Value* infinite = eq(g, abs(g, largest), scalar(g, t, inf));
  Value* shift = where(g, infinite, scalar(g, t, 0), largest);
  Value* sum = reduce_sum(g, exp(g, sub(g, x, shift)), axes, true);
  Value* y = add(g, log(g, sum), shift);
  return one(to_result(c, reshape(g, y, c.result().shape)));
}

std::vector<Value*> import_softmax_backward(AtenCall& c) {  // grad, output, dim, input_dtype
  Graph& g = c.graph();
  Value *grad = in_compute_type(g, c.tensor(0)), *y = in_compute_type(g, c.tensor(1));
  const Ints axis{normal_axis(c.integer(2), y->type().rank())};
  Value* product = mul(g, grad, y);
  Value* result = sub(g, product, mul(g, y, reduce_sum(g, product, axis, true)));
  return one(to_result(c, result));
}

std::vector<Value*> import_log_softmax_backward(AtenCall& c) {
  Graph& g = c.graph();
  Value *grad = in_compute_type(g, c.tensor(0)), *y = in_compute_type(g, c.tensor(1));
  const Ints axis{normal_axis(c.integer(2), y->type().rank())};
  Value* sum = reduce_sum(g, grad, axis, true);
  return one(to_result(c, sub(g, grad, mul(g, exp(g, y), sum))));
}

}  // namespace

void register_softmax() {
  Definition("softmax", "e^x over its sum along an axis.")
      .in({"x"})
      .attrs<Axis>()
      .traits(Trait::pure)
      .infer_one(axis_type)
      .expand(expand_softmax)
      .aten("aten._softmax.default", import_along_axis("softmax"))
      .aten("aten.softmax.int", import_along_axis("softmax"))
      .aten("aten._safe_softmax.default", import_safe_softmax)
      .aten("aten._softmax_backward_data.default", import_softmax_backward)
      .sample(matrix_sample({{"axis", std::int64_t{1}}}))
      .define();
  Definition("log_softmax", "Logarithm of softmax along an axis.")
      .in({"x"})
      .attrs<Axis>()
      .traits(Trait::pure)
      .infer_one(axis_type)
      .expand(expand_log_softmax)
      .aten("aten._log_softmax.default", import_along_axis("log_softmax"))
      .aten("aten.log_softmax.int", import_along_axis("log_softmax"))
      .aten("aten._log_softmax_backward_data.default", import_log_softmax_backward)
      .sample(matrix_sample({{"axis", std::int64_t{1}}}))
      .define();
  register_aten_row("aten.logsumexp.default", import_logsumexp);
  register_aten_facts(
      {"aten._log_softmax", "aten._softmax"},
      {.padding = AtenFacts::Padding::folds, .decomposition = AtenFacts::Decomposition::any});
  register_aten_facts({"aten.logsumexp"}, {.padding = AtenFacts::Padding::folds});
}

}  // namespace gex::ops
