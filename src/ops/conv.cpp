// 2-d convolution as one reduction; 1-d is a height of one. Weights are [O, C/groups, KH, KW].

#include "ops/conv.hpp"

#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/fold.hpp"
#include "ops/problem_rules.hpp"

namespace gex::ops {

namespace {

Type conv_type(const InferContext& c) {
  const auto a = c.as<Conv>();
  require_convolution(c, 2, a.stride, a.padding, a.dilation, a.groups);
  const Shape &x = c.in(0).shape, &w = c.in(1).shape;
  if (!assume_eq(x[1], w[1] * Dim(a.groups)) || !assume_eq(mod(w[0], a.groups), 0)) {
    fail(ErrorCode::shape_mismatch, "conv2d: ", c.in(0), " with weights ", c.in(1), " in ",
         a.groups, " groups: channels must be ", w[1] * Dim(a.groups),
         " and output channels a multiple of the groups");
  }
  const DType dtype = a.wide ? compute_type(c.in(0).dtype) : c.in(0).dtype;
  Shape shape{x[0], w[0]};
  for (std::size_t k = 0; k < 2; ++k) {
    shape.push_back(conv_output_size(x[k + 2], w[k + 2], a.stride[k], a.padding[k], a.dilation[k]));
  }
  return Type::tensor(dtype, shape);
}

// Point [n, o, y, x, c, ky, kx], reduced over the last three.
std::vector<Scalar> conv_element(BodyContext& c, Indices p) {
  const auto a = c.node.as<Conv>();
  const Shape &x = c.in_type(0).shape, &w = c.in_type(1).shape;
  const DType t = compute_type(c.in_type(0).dtype);
  std::vector<Dim> at{p[0], p[4], Dim(0), Dim(0)};
  if (a.groups > 1) at[1] = floordiv(p[1], floordiv(w[0], a.groups)) * w[1] + p[4];
  Scalar inside = c.s.constant(DType::boolean, 1);
  for (std::size_t k = 0; k < 2; ++k) {
    at[k + 2] = p[k + 2] * Dim(a.stride[k]) + p[k + 5] * Dim(a.dilation[k]) - Dim(a.padding[k]);
    if (a.padding[k] != 0) {
      inside = c.s.logical_and(inside, c.s.in_bounds(at[k + 2], 0, x[k + 2]));
    }
  }
  const Scalar zero = c.s.constant(c.in_type(0).dtype, 0);
  const Scalar value = c.s.is_true(inside) ? c.in(0, at) : c.in(0, at, inside, zero);
  const Scalar weight = c.in(1, std::vector<Dim>{p[1], p[4], p[5], p[6]});
  return {c.s.mul(c.s.cast(value, t), c.s.cast(weight, t))};
}

loop::ReductionBody conv_body() {
  loop::ReductionBody body;
  body.shape = [](const Node& n) {
    Shape shape = n.output()->type().shape;
    const Shape& w = n.input(1)->type().shape;
    shape.insert(shape.end(), {w[1], w[2], w[3]});
    return shape;
  };
  body.axes = [](const Node&) { return std::vector<int>{4, 5, 6}; };
  body.out_index = [](const Node&, Indices p) {
    return std::vector<Dim>(p.begin(), p.begin() + 4);
  };
  body.accumulators = [](const Node& n) {
    return std::vector{accumulator("a", compute_type(n.input(0)->type().dtype), 0)};
  };
  body.elements = conv_element;
  body.combine = combine_by(Prim::add);
  body.finish = [](BodyContext& c, int, Indices, std::span<const Scalar> acc) {
    return c.s.cast(acc[0], c.out_type().dtype);
  };
  return body;
}

}  // namespace

Dim conv_output_size(Dim size, Dim taps, std::int64_t stride, std::int64_t padding,
                     std::int64_t dilation) {
  const Dim reach = Dim(dilation) * (taps - 1) + 1;
  return floordiv(size + Dim(2 * padding) - reach, Dim(stride)) + 1;
}

void require_convolution(const InferContext& c, std::size_t axes, const Ints& stride,
                         const Ints& padding, const Ints& dilation, std::int64_t groups) {
  require_dtype(c, 0, floating);
  require_same_dtype(c, 0, 1);
  require_rank(c, 0, static_cast<int>(axes) + 2);
  require_rank(c, 1, static_cast<int>(axes) + 2);
  if (stride.size() != axes || padding.size() != axes || dilation.size() != axes || groups < 1) {
    fail(ErrorCode::invalid_argument, c.op_name, ": stride, padding and dilation need ", axes,
         " entries, groups at least 1");
  }
  require_at_least(c, "stride", stride, 1);
  require_at_least(c, "dilation", dilation, 1);
  require_at_least(c, "padding", padding, 0);
}

void register_conv() {
  Definition("conv2d", "Cross-correlation of [N, C, H, W] with weights [O, C/groups, KH, KW].")
      .in({"x", "weight"})
      .attrs<Conv>()
      .traits(Trait::pure | Trait::reduction | Trait::contraction)
      .infer_one(conv_type)
      .reduction(conv_body())
      .problem(conv2d_rule())
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data({Dim(2), Dim(4), s + 3, Dim(5)}), data({Dim(6), Dim(2), Dim(3), Dim(3)})},
            {{"stride", Ints{2, 1}}, {"padding", Ints{1, 0}}, {"groups", std::int64_t{2}}},
            {}};
      })
      .define();
}

}  // namespace gex::ops
