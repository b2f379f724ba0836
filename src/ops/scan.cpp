// Running folds along an axis.

#include "ops/build.hpp"
#include "ops/define.hpp"
#include "ops/families.hpp"
#include "ops/fold.hpp"
#include "ops/rows.hpp"

namespace gex::ops {

namespace {

DType running_type(DType d) { return is_float(d) ? compute_type(d) : DType::i64; }

Definition scan(const char* name, const char* doc, Prim prim, double init) {
  loop::ReductionBody body;
  body.scan = true;
  // A 0-d input scans over a unit axis of its own.
  body.shape = [](const Node& n) {
    const Shape& shape = n.input(0)->type().shape;
    return shape.empty() ? Shape{Dim(1)} : shape;
  };
  body.axes = [](const Node& n) { return std::vector<int>{static_cast<int>(n.as<Axis>().axis)}; };
  body.out_index = [](const Node& n, Indices p) {
    return n.input(0)->type().rank() == 0 ? std::vector<Dim>{}
                                          : std::vector<Dim>(p.begin(), p.end());
  };
  body.accumulators = [init](const Node& n) {
    return std::vector{accumulator("a", running_type(n.input(0)->type().dtype), init)};
  };
  body.elements = [](BodyContext& c, Indices p) {
    const auto rank = static_cast<std::size_t>(c.in_type(0).rank());
    const Scalar x = c.in(0, p.subspan(0, rank));
    return std::vector<Scalar>{c.s.cast(x, running_type(x.dtype))};
  };
  body.combine = combine_by(prim);
  body.finish = [](BodyContext& c, int, Indices, std::span<const Scalar> acc) {
    return c.s.cast(acc[0], c.out_type().dtype);
  };
  Definition d(name, doc);
  d.in({"x"})
      .attrs<Axis>()
      .traits(Trait::pure | Trait::scan)
      .infer_one([](const InferContext& c) {
        const std::int64_t axis = c.as<Axis>().axis;
        if (axis < 0 || axis >= std::max(c.in(0).rank(), 1)) {
          fail(ErrorCode::invalid_argument, c.op_name, ": axis ", axis, " is out of range for ",
               c.in(0));
        }
        const DType t = c.in(0).dtype;
        return Type::tensor(is_float(t) ? t : DType::i64, c.in(0).shape);
      })
      .reduction(std::move(body))
      .usual_import([op_name = std::string(name)](AtenCall& c) {
        const DType result = c.result().dtype;
        Value* x = operand(c, 0, is_float(result) ? result : DType::i64);
        const Axis axis{normal_axis(c.integer(1), x->type().rank())};
        return one(to_result(c, apply(c.graph(), op_name, {x}, axis)));
      });
  return d;
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
}

}  // namespace gex::ops
