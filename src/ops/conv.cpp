// 2-d convolution as one reduction; 1-d is a height of one. Weights are [O, C/groups, KH, KW].

#include <algorithm>

#include "ops/build.hpp"
#include "ops/define.hpp"
#include "ops/families.hpp"
#include "ops/fold.hpp"
#include "ops/rows.hpp"

namespace gex::ops {

namespace {

Dim output_size(Dim size, Dim taps, std::int64_t stride, std::int64_t padding,
                std::int64_t dilation) {
  const Dim reach = Dim(dilation) * (taps - 1) + 1;
  return floordiv(size + Dim(2 * padding) - reach, Dim(stride)) + 1;
}

Type conv_type(const InferContext& c) {
  require_dtype(c, 0, floating);
  require_same_dtype(c, 0, 1);
  require_rank(c, 0, 4);
  require_rank(c, 1, 4);
  const auto a = c.as<Conv>();
  const Shape &x = c.in(0).shape, &w = c.in(1).shape;
  if (a.stride.size() != 2 || a.padding.size() != 2 || a.dilation.size() != 2 || a.groups < 1) {
    fail(ErrorCode::invalid_argument,
         "conv2d: stride, padding and dilation need two entries, groups at least 1");
  }
  require_at_least(c, "stride", a.stride, 1);
  require_at_least(c, "dilation", a.dilation, 1);
  require_at_least(c, "padding", a.padding, 0);
  if (!assume_eq(x[1], w[1] * Dim(a.groups)) || !assume_eq(mod(w[0], a.groups), 0)) {
    fail(ErrorCode::shape_mismatch, "conv2d: ", c.in(0), " with weights ", c.in(1), " in ",
         a.groups, " groups: channels must be ", w[1] * Dim(a.groups),
         " and output channels a multiple of the groups");
  }
  const DType dtype = a.wide ? compute_type(c.in(0).dtype) : c.in(0).dtype;
  Shape shape{x[0], w[0]};
  for (std::size_t k = 0; k < 2; ++k) {
    shape.push_back(output_size(x[k + 2], w[k + 2], a.stride[k], a.padding[k], a.dilation[k]));
  }
  return Type::tensor(dtype, shape);
}

// Point [n, o, y, x, c, ky, kx], folded over the last three.
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

Value* with_bias(AtenCall& c, Value* y) {
  if (c.none(2)) return y;
  Graph& g = c.graph();
  Value* bias = cast(g, c.tensor(2), y->type().dtype);
  return add(g, y, reshape(g, bias, {bias->type().shape[0], Dim(1), Dim(1)}));
}

bool all_are(const Ints& values, std::int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == value; });
}

// A transposed convolution whose windows lie side by side (patches to pixels) is one product: each
// input pixel makes a patch of its own.
std::vector<Value*> import_patches(AtenCall& c) {
  Graph& g = c.graph();
  Value *x = c.tensor(0), *weight = c.tensor(1);
  const int rank = x->type().rank();
  const Ints stride = c.integers(3);
  for (std::size_t k = 0; k + 2 < static_cast<std::size_t>(rank); ++k) {
    if (weight->type().shape[k + 2] != Dim(stride[std::min(k, stride.size() - 1)])) return {};
  }
  if (!all_are(c.integers(4), 0) || !all_are(c.integers(5), 1) || !all_are(c.integers(7), 0) ||
      c.integer(8) != 1) {
    return {};
  }
  if (rank == 3) {
    x = unsqueeze(g, x, 2);
    weight = unsqueeze(g, weight, 2);
  }
  const Shape in = x->type().shape, w = weight->type().shape;
  const Dim pixels = in[0] * in[2] * in[3];
  Value* rows = reshape(g, transpose(g, x, {0, 2, 3, 1}), {pixels, in[1]});
  const bool wide = is_low_float(c.result().dtype) && !c.none(2);
  Value* y = matmul(g, rows, reshape(g, weight, {w[0], w[1] * w[2] * w[3]}), wide);
  y = reshape(g, y, {in[0], in[2], in[3], w[1], w[2], w[3]});
  y = transpose(g, y, {0, 3, 1, 4, 2, 5});
  y = with_bias(c, reshape(g, y, {in[0], w[1], in[2] * w[2], in[3] * w[3]}));
  return one(to_result(c, rank == 3 ? squeeze(g, y, 2) : y));
}

// x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
std::vector<Value*> import_convolution(AtenCall& c) {
  Graph& g = c.graph();
  Value *x = c.tensor(0), *weight = c.tensor(1);
  const int rank = x->type().rank();
  if (!is_float(c.result().dtype) || (rank != 3 && rank != 4)) return {};
  if (c.flag(6)) return import_patches(c);
  auto two = [&](std::size_t i, std::int64_t fill) {
    Ints values = c.integers(i);
    if (values.size() == 1 && rank == 4) values.push_back(values[0]);
    if (rank == 3) values = {fill, values[0]};
    return values;
  };
  const bool low = is_low_float(c.result().dtype);
  const bool biased = !c.none(2);
  const Conv attrs{two(3, 1), two(4, 0), two(5, 1), c.integer(8), low && biased};
  if (rank == 3) {
    x = unsqueeze(g, x, 2);
    weight = unsqueeze(g, weight, 2);
  }
  Value* y = with_bias(c, conv2d(g, x, weight, attrs));
  return one(to_result(c, rank == 3 ? squeeze(g, y, 2) : y));
}

}  // namespace

void register_conv() {
  Definition("conv2d", "Cross-correlation of [N, C, H, W] with weights [O, C/groups, KH, KW].")
      .in({"x", "weight"})
      .attrs<Conv>()
      .traits(Trait::pure | Trait::reduction | Trait::contraction)
      .infer_one(conv_type)
      .reduction(conv_body())
      .aten("aten.convolution.default", import_convolution)
      .define();
}

}  // namespace gex::ops
