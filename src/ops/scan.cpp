// Running reductions along an axis.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/fold.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

// A running sum takes every element in sequence, so its error grows with the length: f32 is
// accumulated in f64, as in PyTorch.
DType running_type(DType d) {
  if (!is_float(d)) return DType::i64;
  return is_low_float(d) ? DType::f32 : DType::f64;
}

std::vector<Scalar> element_of(BodyContext& c, Indices p) {
  return {c.in(0, p.subspan(0, static_cast<std::size_t>(c.in_type(0).rank())))};
}

// A scan over the axis, without accumulators and bodies. A 0-d input scans over a unit axis.
loop::ReductionBody along_axis() {
  loop::ReductionBody body;
  body.scan = true;
  body.shape = [](const Node& n) {
    const Shape& shape = n.input(0)->type().shape;
    return shape.empty() ? Shape{Dim(1)} : shape;
  };
  body.axes = [](const Node& n) { return std::vector<int>{static_cast<int>(n.as<Axis>().axis)}; };
  body.out_index = [](const Node& n, Indices p) {
    return n.input(0)->type().rank() == 0 ? std::vector<Dim>{}
                                          : std::vector<Dim>(p.begin(), p.end());
  };
  return body;
}

void require_scan_axis(const InferContext& c) {
  const std::int64_t axis = c.as<Axis>().axis;
  if (axis < 0 || axis >= std::max(c.in(0).rank(), 1)) {
    fail(ErrorCode::invalid_argument, c.op_name, ": axis ", axis, " is out of range for ", c.in(0));
  }
}

Axis axis_argument(const AtenCall& c, const Value* x) {
  return {normal_axis(c.integer(1), x->type().rank())};
}

// A scan with one result of the type of its input (integers: i64).
Definition running(const char* name, const char* doc, loop::ReductionBody body, DTypeSet accepts) {
  Definition d(name, doc);
  d.sample(matrix_sample({{"axis", std::int64_t{1}}}));
  d.in({"x"})
      .attrs<Axis>()
      .traits(Trait::pure | Trait::scan)
      .infer_one([accepts](const InferContext& c) {
        require_dtype(c, 0, accepts);
        require_scan_axis(c);
        const DType t = c.in(0).dtype;
        return Type::tensor(is_float(t) ? t : DType::i64, c.in(0).shape);
      })
      .reduction(std::move(body))
      .usual_import([op_name = std::string(name)](AtenCall& c) {
        const DType result = c.result().dtype;
        Value* x = operand(c, 0, is_float(result) ? result : DType::i64);
        return one(to_result(c, apply(c.graph(), op_name, {x}, axis_argument(c, x))));
      });
  return d;
}

Definition scan(const char* name, const char* doc, Prim prim, double init) {
  loop::ReductionBody body = along_axis();
  body.accumulators = [init](const Node& n) {
    return std::vector{accumulator("a", running_type(n.input(0)->type().dtype), init)};
  };
  body.elements = [](BodyContext& c, Indices p) {
    const Scalar x = element_of(c, p)[0];
    return std::vector<Scalar>{c.s.cast(x, running_type(x.dtype))};
  };
  body.combine = combine_by(prim);
  body.finish = [](BodyContext& c, int, Indices, std::span<const Scalar> acc) {
    return c.s.cast(acc[0], c.out_type().dtype);
  };
  return running(name, doc, std::move(body), any_dtype);
}

// The state is (largest, sum of e^(x - largest)). No element waits for the logarithm of its
// predecessor, and the sum is not rounded to the precision of its logarithm.
std::vector<Scalar> combine_log_sum(ScalarBuilder& s, const Node&, std::span<const Scalar> a,
                                    std::span<const Scalar> b) {
  const Scalar low = s.binary(Prim::min, a[0], b[0]), high = s.binary(Prim::max, a[0], b[0]);
  // The difference of equal infinities is NaN.
  const Scalar ratio = s.select(s.binary(Prim::eq, low, high), s.constant(low.dtype, 1),
                                s.unary(Prim::exp, s.sub(low, high)));
  const Scalar sum = s.select(s.binary(Prim::ge, a[0], b[0]), s.add(a[1], s.mul(b[1], ratio)),
                              s.add(s.mul(a[1], ratio), b[1]));
  return {high, sum};
}

Definition log_cum_sum_exp() {
  loop::ReductionBody body = along_axis();
  body.accumulators = [](const Node&) {
    return std::vector{accumulator("largest", DType::f64, lowest(DType::f64)),
                       accumulator("sum", DType::f64, 0)};
  };
  body.elements = [](BodyContext& c, Indices p) {
    return std::vector<Scalar>{c.s.cast(element_of(c, p)[0], DType::f64),
                               c.s.constant(DType::f64, 1)};
  };
  body.combine = combine_log_sum;
  body.finish = [](BodyContext& c, int, Indices, std::span<const Scalar> acc) {
    return c.s.cast(c.s.add(acc[0], c.s.unary(Prim::log, acc[1])), c.out_type().dtype);
  };
  return running("logcumsumexp", "log of the sum of e^x up to each element along an axis.",
                 std::move(body), floating);
}

// The index of the running extremum. Only elements that equal the running extremum at their own
// position are candidates, and the last candidate so far is the index: a running maximum of
// integers instead of a scan of pairs.
Value* places_of_best(Graph& g, Value* x, Value* best, std::int64_t axis) {
  const Shape& shape = x->type().shape;
  if (shape.empty()) return full(g, DType::i64, 0, {});
  Value* found = eq(g, x, best);
  if (is_float(x->type().dtype)) found = bit_or(g, found, is_nan(g, x));
  Shape along(shape.size() - static_cast<std::size_t>(axis), Dim(1));
  along[0] = shape[static_cast<std::size_t>(axis)];
  Value* place = reshape(g, iota(g, along[0]), along);
  Value* candidates = where(g, found, place, scalar_int(g, DType::i64, 0));
  return apply(g, "cummax_values", {candidates}, Axis{axis});
}

// Values are an op of their own, so that unused places are not computed.
void register_extremum(const std::string& name, const char* which, Prim prim,
                       double (*init)(DType)) {
  loop::ReductionBody body = along_axis();
  body.accumulators = [=](const Node& n) {
    const DType t = n.input(0)->type().dtype;
    return std::vector{accumulator("value", t, init(t))};
  };
  body.elements = element_of;
  body.combine = combine_by(prim);
  body.finish = [](BodyContext&, int, Indices, std::span<const Scalar> acc) { return acc[0]; };
  auto types = [](const InferContext& c) {
    require_dtype(c, 0, numeric);
    require_scan_axis(c);
    return std::vector{Type::tensor(c.in(0).dtype, c.in(0).shape),
                       Type::tensor(DType::i64, c.in(0).shape)};
  };
  Definition(name + "_values", str("The ", which, " element so far."))
      .in({"x"})
      .attrs<Axis>()
      .traits(Trait::pure | Trait::scan)
      .infer_one([types](const InferContext& c) { return types(c)[0]; })
      .reduction(std::move(body))
      .sample(matrix_sample({{"axis", std::int64_t{1}}}))
      .define();
  Definition(name, str("The ", which, " element up to each along an axis, and where it is."))
      .in({"x"})
      .out({"values", "indices"})
      .attrs<Axis>()
      .traits(Trait::pure)
      .infer(types)
      .expand([name](Graph& g, const Node& n) {
        Value* x = n.input(0);
        Value* best = apply(g, name + "_values", {x}, n.as<Axis>());
        return std::vector{best, places_of_best(g, x, best, n.as<Axis>().axis)};
      })
      .aten(str("aten.", name, ".default").c_str(),
            [name](AtenCall& c) {
              Value* x = c.tensor(0);
              if (!numeric(x->type().dtype)) return std::vector<Value*>{};
              Node* n = c.graph().add(op(name), {x}, axis_argument(c, x));
              return std::vector{n->output(0), n->output(1)};
            })
      .sample(matrix_sample({{"axis", std::int64_t{1}}}))
      .define();
}

}  // namespace

void register_scan() {
  scan("cumsum", "Sum of all elements up to each along an axis.", Prim::add, 0)
      .aten("aten.cumsum.default")
      .define();
  scan("cumprod", "Product of all elements up to each along an axis.", Prim::mul, 1)
      .aten("aten.cumprod.default")
      .tested(0.5, 1.5)
      .define();
  log_cum_sum_exp().aten("aten.logcumsumexp.default").define();
  register_extremum("cummax", "largest", Prim::max, lowest);
  register_extremum("cummin", "smallest", Prim::min, highest);
  register_aten_facts({"aten.cumprod", "aten.cumsum"},
                      {.padding = AtenFacts::Padding::from_the_front});
}

}  // namespace gex::ops
