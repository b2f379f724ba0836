// Reductions over one or more axes.

#include <cmath>
#include <limits>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/fold.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

using loop::Accumulator;

// The index of an extremum requires at least one element.
void require_elements(const InferContext& c, const Ints& axes) {
  require_axes(c, axes);
  const Shape kept = reduced_shape(c.in(0).shape, axes, false);
  for (std::int64_t axis : axes) {
    if (c.in(0).shape[static_cast<std::size_t>(axis)] == Dim(0) && !(product(kept) == Dim(0))) {
      fail(ErrorCode::shape_mismatch, c.op_name, ": axis ", axis, " of ", c.in(0),
           " is empty, so it has no extremum");
    }
  }
}

Type reduced(const InferContext& c, DType dtype) {
  const auto a = c.as<Reduce>();
  require_axes(c, a.axes);
  return Type::tensor(dtype, reduced_shape(c.in(0).shape, a.axes, a.keepdim));
}

// A 0-d input, or no axes at all, is reduced over an added unit axis: one path for all.
bool needs_unit_axis(const Node& n) { return n.as<Reduce>().axes.empty(); }

Shape iteration_shape(const Node& n) {
  Shape shape = n.input(0)->type().shape;
  if (needs_unit_axis(n)) shape.push_back(1);
  return shape;
}

std::vector<int> folded_axes(const Node& n) {
  const auto a = n.as<Reduce>();
  if (a.axes.empty()) return {n.input(0)->type().rank()};
  return {a.axes.begin(), a.axes.end()};
}

std::vector<Dim> kept_index(const Node& n, Indices point) {
  const auto a = n.as<Reduce>();
  std::vector<Dim> index;
  for (int i = 0; i < n.input(0)->type().rank(); ++i) {
    if (!contains(a.axes, i)) {
      index.push_back(point[static_cast<std::size_t>(i)]);
    } else if (a.keepdim) {
      index.push_back(0);
    }
  }
  return index;
}

Indices input_index(const Node& n, Indices point) {
  return point.subspan(0, static_cast<std::size_t>(n.input(0)->type().rank()));
}

// Position of a point within the reduced axes, row-major.
Dim folded_position(const Node& n, Indices point) {
  const Shape shape = iteration_shape(n);
  Dim linear = 0;
  for (int axis : folded_axes(n)) {
    const auto i = static_cast<std::size_t>(axis);
    linear = linear * shape[i] + point[i];
  }
  return linear;
}

Dim folded_count(const Node& n) {
  const Shape shape = iteration_shape(n);
  Dim count = 1;
  for (int axis : folded_axes(n)) count *= shape[static_cast<std::size_t>(axis)];
  return count;
}

loop::ReductionBody over_axes() {
  loop::ReductionBody body;
  body.shape = iteration_shape;
  body.axes = folded_axes;
  body.out_index = kept_index;
  return body;
}

DType sum_type(DType d) { return is_float(d) ? d : DType::i64; }

// Reduces with one primitive in `acc_type(dtype)`; the result has the op's own dtype.
Definition fold(const char* name, const char* doc, Prim prim, DType (*acc_type)(DType),
                double (*init)(DType)) {
  loop::ReductionBody body = over_axes();
  body.accumulators = [=](const Node& n) {
    const DType t = acc_type(n.input(0)->type().dtype);
    return std::vector<Accumulator>{accumulator("a", t, init(t))};
  };
  body.elements = [=](BodyContext& c, Indices p) {
    const Scalar x = c.in(0, input_index(c.node, p));
    return std::vector<Scalar>{c.s.cast(x, acc_type(x.dtype))};
  };
  body.combine = combine_by(prim);
  body.finish = [](BodyContext& c, int, Indices, std::span<const Scalar> acc) {
    return c.s.cast(acc[0], c.out_type().dtype);
  };
  Definition d(name, doc);
  d.sample(matrix_sample({{"axes", Ints{1}}}));
  d.in({"x"}).attrs<Reduce>().traits(Trait::pure | Trait::reduction).reduction(std::move(body));
  return d;
}

DType accumulate_sum(DType d) { return sum_type(compute_type(d)); }
// Products of f32 are accumulated in f64: products of factors near 1 would be rounded with a bias.
// A factor below 1 has one bit more than the product, so every product lies halfway between two
// numbers but for a small term, which always has the same sign.
DType accumulate_product(DType d) { return d == DType::f32 ? DType::f64 : accumulate_sum(d); }
DType same(DType d) { return d; }
double zero_of(DType) { return 0; }
double one_of(DType) { return 1; }
double lowest_of(DType d) { return lowest(d); }
double highest_of(DType d) { return highest(d); }

void register_mean() {
  loop::ReductionBody body = over_axes();
  body.accumulators = [](const Node& n) {
    return std::vector<Accumulator>{accumulator("a", compute_type(n.input(0)->type().dtype), 0)};
  };
  body.elements = [](BodyContext& c, Indices p) {
    const Scalar x = c.in(0, input_index(c.node, p));
    return std::vector<Scalar>{c.s.cast(x, compute_type(x.dtype))};
  };
  body.combine = combine_by(Prim::add);
  body.finish = [](BodyContext& c, int, Indices, std::span<const Scalar> acc) {
    const Scalar count = c.s.cast(c.s.index(folded_count(c.node)), DType::f64);
    if (acc[0].dtype == DType::f64) return c.s.cast(c.s.div(acc[0], count), c.out_type().dtype);
    // Rounded once: the sum is read as f64, where the product with 1 / count is exact enough.
    const Scalar share = c.s.div(c.s.constant(DType::f64, 1), count);
    const Scalar sum = c.s.acc(c.s.expr(acc[0]).slot, DType::f64);
    return c.s.cast(c.s.mul(sum, share), c.out_type().dtype);
  };
  Definition("reduce_mean", "Mean over axes; f16 and bf16 in f32, rounded once.")
      .in({"x"})
      .attrs<Reduce>()
      .traits(Trait::pure | Trait::reduction)
      .infer_one([](const InferContext& c) {
        require_dtype(c, 0, floating);
        return reduced(c, c.in(0).dtype);
      })
      .reduction(std::move(body))
      .sample(matrix_sample({{"axes", Ints{1}}}))
      .define();
}

Definition arg_extremum(const char* name, const char* doc, Prim better, double (*init)(DType)) {
  loop::ReductionBody body = over_axes();
  body.accumulators = [=](const Node& n) {
    const DType t = n.input(0)->type().dtype;
    return arg_accumulators(t, init(t));
  };
  body.elements = [](BodyContext& c, Indices p) {
    return std::vector<Scalar>{c.in(0, input_index(c.node, p)),
                               c.s.index(folded_position(c.node, p))};
  };
  body.combine = combine_arg(better);
  body.finish = [](BodyContext&, int, Indices, std::span<const Scalar> acc) { return acc[1]; };
  Definition d(name, doc);
  d.sample(matrix_sample({{"axes", Ints{1}}}));
  d.in({"x"})
      .attrs<Reduce>()
      .traits(Trait::pure | Trait::reduction)
      .infer_one([](const InferContext& c) {
        require_dtype(c, 0, numeric);
        require_elements(c, c.as<Reduce>().axes);
        return reduced(c, DType::i64);
      })
      .reduction(std::move(body));
  return d;
}

// --- rows -------------------------------------------------------------------------------------

bool keepdim_argument(const AtenCall& c, std::size_t i) { return !c.none(i) && c.flag(i); }

// axes at argument 1 and keepdim at 2, if the overload has them.
std::vector<Value*> import_reduce(AtenCall& c, const char* op_name, DType compute) {
  Value* x = operand(c, 0, compute);
  const Ints axes = axes_argument(c, 1, x->type().rank());
  return one(to_result(c, reduce(c.graph(), op_name, x, axes, keepdim_argument(c, 2))));
}

std::vector<Value*> import_all(AtenCall& c, const char* op_name, DType compute) {
  Value* x = operand(c, 0, compute);
  return one(to_result(c, reduce(c.graph(), op_name, x, all_axes(x->type().rank()))));
}

DType sum_operand_type(const AtenCall& c) {
  return is_float(c.result().dtype) ? c.result().dtype : DType::i64;
}

Value* one_axis(AtenCall& c, const char* op_name, Value* x, bool keepdim) {
  return reduce(c.graph(), op_name, x, {normal_axis(c.integer(1), x->type().rank())}, keepdim);
}

// Whether the axis may be empty, as that of a selection. PyTorch itself raises the error, also if
// the result has no elements.
bool may_be_empty(const AtenCall& c, int argument) {
  const Shape& shape = c.tensor(0)->type().shape;
  if (shape.empty()) return false;
  const std::int64_t axis = normal_axis(c.integer(argument), static_cast<int>(shape.size()));
  return known_lt(Dim(0), shape[static_cast<std::size_t>(axis)]) != true;
}

std::vector<Value*> import_extremum_dim(AtenCall& c, const char* op_name, const char* arg_name) {
  const bool keepdim = keepdim_argument(c, 2);
  Value* x = c.tensor(0);
  if (x->type().dtype == DType::boolean || may_be_empty(c, 1)) return {};
  return {one_axis(c, op_name, x, keepdim), one_axis(c, arg_name, x, keepdim)};
}

std::vector<Value*> import_arg(AtenCall& c, const char* op_name) {
  Value* x = c.tensor(0);
  if (!c.none(1) && may_be_empty(c, 1)) return {};
  if (!c.none(1)) return one(one_axis(c, op_name, x, keepdim_argument(c, 2)));
  // Without an axis the index counts over the flattened tensor.
  return one(reduce(c.graph(), op_name, x, all_axes(x->type().rank()), keepdim_argument(c, 2)));
}

AtenImport extremum_row(const char* op_name, const char* bool_op, bool with_axes) {
  return [=](AtenCall& c) {
    const DType t = c.tensor(0)->type().dtype;
    const char* name = t == DType::boolean ? bool_op : op_name;
    // PyTorch itself raises the error.
    if (!with_axes && known_lt(Dim(0), c.tensor(0)->type().numel()) != true)
      return std::vector<Value*>{};
    return with_axes ? import_reduce(c, name, t) : import_all(c, name, t);
  };
}

std::vector<Value*> import_any_all(AtenCall& c, const char* op_name, bool one_dim) {
  if (!one_dim) return import_all(c, op_name, DType::boolean);
  Value* x = operand(c, 0, DType::boolean);
  return one(to_result(c, one_axis(c, op_name, x, keepdim_argument(c, 2))));
}

void register_sums() {
  fold("reduce_sum", "Sum over axes; f16 and bf16 in f32, integers and bool in i64.", Prim::add,
       accumulate_sum, zero_of)
      .infer_one([](const InferContext& c) { return reduced(c, sum_type(c.in(0).dtype)); })
      .aten("aten.sum.dim_IntList",
            [](AtenCall& c) { return import_reduce(c, "reduce_sum", sum_operand_type(c)); })
      .aten("aten.sum.default",
            [](AtenCall& c) { return import_all(c, "reduce_sum", sum_operand_type(c)); })
      .define();
  fold("reduce_prod",
       "Product over axes; f16 and bf16 in f32, f32 in f64, integers and bool in i64.", Prim::mul,
       accumulate_product, one_of)
      .infer_one([](const InferContext& c) { return reduced(c, sum_type(c.in(0).dtype)); })
      .aten("aten.prod.dim_int",
            [](AtenCall& c) {
              Value* x = operand(c, 0, sum_operand_type(c));
              return one(to_result(c, one_axis(c, "reduce_prod", x, keepdim_argument(c, 2))));
            })
      .aten("aten.prod.default",
            [](AtenCall& c) { return import_all(c, "reduce_prod", sum_operand_type(c)); })
      .tested(0.5, 1.5)
      .define();
}

void register_extrema() {
  auto extremum_rule = [](const InferContext& c) {
    require_dtype(c, 0, numeric);
    return reduced(c, c.in(0).dtype);
  };
  fold("reduce_max", "Largest element over axes; NaN if one is NaN; of nothing: the lowest value.",
       Prim::max, same, lowest_of)
      .infer_one(extremum_rule)
      .aten("aten.amax.default", extremum_row("reduce_max", "reduce_any", true))
      .aten("aten.max.default", extremum_row("reduce_max", "reduce_any", false))
      .aten("aten.max.dim",
            [](AtenCall& c) { return import_extremum_dim(c, "reduce_max", "argmax"); })
      .define();
  fold("reduce_min",
       "Smallest element over axes; NaN if one is NaN; of nothing: the highest value.", Prim::min,
       same, highest_of)
      .infer_one(extremum_rule)
      .aten("aten.amin.default", extremum_row("reduce_min", "reduce_all", true))
      .aten("aten.min.default", extremum_row("reduce_min", "reduce_all", false))
      .aten("aten.min.dim",
            [](AtenCall& c) { return import_extremum_dim(c, "reduce_min", "argmin"); })
      .define();
  arg_extremum("argmax", "First index of the largest element; NaN counts as largest.", Prim::gt,
               lowest_of)
      .aten("aten.argmax.default", [](AtenCall& c) { return import_arg(c, "argmax"); })
      .define();
  arg_extremum("argmin", "First index of the smallest element; NaN counts as smallest.", Prim::lt,
               highest_of)
      .aten("aten.argmin.default", [](AtenCall& c) { return import_arg(c, "argmin"); })
      .define();
}

void register_any_all() {
  auto bool_rule = [](const InferContext& c) {
    require_dtype(c, 0, [](DType d) { return d == DType::boolean; });
    return reduced(c, DType::boolean);
  };
  fold("reduce_any", "True if any element over axes is.", Prim::bit_or, same, zero_of)
      .infer_one(bool_rule)
      .aten("aten.any.default", [](AtenCall& c) { return import_any_all(c, "reduce_any", false); })
      .aten("aten.any.dim", [](AtenCall& c) { return import_any_all(c, "reduce_any", true); })
      .aten("aten.any.dims",
            [](AtenCall& c) { return import_reduce(c, "reduce_any", DType::boolean); })
      .define();
  fold("reduce_all", "True if all elements over axes are.", Prim::bit_and, same, one_of)
      .infer_one(bool_rule)
      .aten("aten._is_all_true.default",
            [](AtenCall& c) { return import_any_all(c, "reduce_all", false); })
      .aten("aten.all.default", [](AtenCall& c) { return import_any_all(c, "reduce_all", false); })
      .aten("aten.all.dim", [](AtenCall& c) { return import_any_all(c, "reduce_all", true); })
      .aten("aten.all.dims",
            [](AtenCall& c) { return import_reduce(c, "reduce_all", DType::boolean); })
      .define();
}

}  // namespace

void register_reduce() {
  register_sums();
  register_mean();
  register_extrema();
  register_any_all();
  register_aten_row("aten.mean.dim",
                    [](AtenCall& c) { return import_reduce(c, "reduce_mean", c.result().dtype); });
  register_aten_row("aten.aminmax.default", [](AtenCall& c) {  // x, dim, keepdim
    Value* x = c.tensor(0);
    if (x->type().dtype == DType::boolean) return std::vector<Value*>{};
    const Ints axes = axes_argument(c, 1, x->type().rank());
    const bool keepdim = keepdim_argument(c, 2);
    return std::vector{reduce_min(c.graph(), x, axes, keepdim),
                       reduce_max(c.graph(), x, axes, keepdim)};
  });
  for (const char* overload : {"aten.count_nonzero.default", "aten.count_nonzero.dim_IntList"}) {
    register_aten_row(overload, [](AtenCall& c) {
      Value* x = operand(c, 0, DType::boolean);
      return one(reduce_sum(c.graph(), x, axes_argument(c, 1, x->type().rank())));
    });
  }
  register_aten_row("aten.mean.default",
                    [](AtenCall& c) { return import_all(c, "reduce_mean", c.result().dtype); });
  register_aten_facts({"aten.argmax", "aten.argmin"},
                      {.range = AtenFacts::Range::place, .padding = AtenFacts::Padding::folds});
  register_aten_facts({"aten.max", "aten.min"},
                      {.places_axis = 1, .padding = AtenFacts::Padding::folds});
  register_aten_facts(
      {"aten.all", "aten.amax", "aten.amin", "aten.any", "aten.mean", "aten.prod", "aten.sum"},
      {.padding = AtenFacts::Padding::folds});
}

}  // namespace gex::ops
