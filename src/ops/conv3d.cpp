// Convolutions over three spatial axes, as 2-d ones: the taps along the depth are folded into the
// channels, the windows along the depth into the batch.

#include "ops/conv.hpp"
#include "ops/core/build.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"

namespace gex::ops {

namespace {

// One of three entries, and the other two.
Ints in_plane(const Ints& values) { return {values[1], values[2]}; }

std::int64_t constant_taps(Dim taps) {
  if (!taps.is_const()) {
    fail(ErrorCode::unsupported, "conv3d: the number of taps along the depth is ", taps,
         "; it must be constant");
  }
  return taps.constant();
}

// [N, C, D, H, W] as [N*windows, C*taps, H, W].
Value* unfold_depth(Graph& g, Value* x, Dim taps, Dim windows, const Ints& stride,
                    const Ints& padding, const Ints& dilation) {
  const Shape s = x->type().shape;
  const std::int64_t count = constant_taps(taps), reach = dilation[0] * (count - 1) + 1;
  Dims border(5);
  border[2] = padding[0];
  if (padding[0] != 0) x = pad(g, x, border, border);
  // Only as much depth as the windows read, so that there are exactly that many.
  x = slice(g, x, 2, 0, (windows - 1) * Dim(stride[0]) + Dim(reach));
  x = g.add("windows", {x},
            {{"axis", std::int64_t{2}}, {"size", reach}, {"step", std::int64_t{stride[0]}}})
          ->output();
  x = slice(g, x, 5, 0, count, dilation[0]);
  x = transpose(g, x, {0, 2, 1, 5, 3, 4});
  return reshape(g, x, {s[0] * windows, s[1] * Dim(count), s[3], s[4]});
}

// [N, C, D, H, W] as [N*D, C, H, W], and back.
Value* depth_to_images(Graph& g, Value* x) {
  const Shape s = x->type().shape;
  return reshape(g, transpose(g, x, {0, 2, 1, 3, 4}), {s[0] * s[2], s[1], s[3], s[4]});
}

Value* images_to_depth(Graph& g, Value* x, Dim images, Dim depth) {
  const Shape s = x->type().shape;
  return transpose(g, reshape(g, x, {images, depth, s[1], s[2], s[3]}), {0, 2, 1, 3, 4});
}

Value* taps_to_channels(Graph& g, Value* weight) {
  const Shape s = weight->type().shape;
  return reshape(g, weight, {s[0], s[1] * s[2], s[3], s[4]});
}

void require_conv3d(const InferContext& c, const Ints& stride, const Ints& padding,
                    const Ints& dilation, std::int64_t groups) {
  require_convolution(c, 3, stride, padding, dilation, groups);
  constant_taps(c.in(1).shape[2]);
  for (std::size_t k = 2; k < 5; ++k) {
    if (!assume_le(1, c.in(1).shape[k])) {
      fail(ErrorCode::shape_mismatch, c.op_name, ": weights ", c.in(1), " have no taps on axis ",
           k);
    }
  }
}

Type conv3d_type(const InferContext& c) {
  const auto a = c.as<Conv>();
  require_conv3d(c, a.stride, a.padding, a.dilation, a.groups);
  const Shape &x = c.in(0).shape, &w = c.in(1).shape;
  if (!assume_eq(x[1], w[1] * Dim(a.groups)) || !assume_eq(mod(w[0], a.groups), 0)) {
    fail(ErrorCode::shape_mismatch, "conv3d: ", c.in(0), " with weights ", c.in(1), " in ",
         a.groups, " groups: channels must be ", w[1] * Dim(a.groups),
         " and output channels a multiple of the groups");
  }
  Shape shape{x[0], w[0]};
  for (std::size_t k = 0; k < 3; ++k) {
    shape.push_back(conv_output_size(x[k + 2], w[k + 2], a.stride[k], a.padding[k], a.dilation[k]));
    if (!assume_le(1, shape.back())) {
      fail(ErrorCode::shape_mismatch, "conv3d: weights ", c.in(1), " are larger than ", c.in(0),
           " on axis ", k + 2);
    }
  }
  return Type::tensor(a.wide ? compute_type(c.in(0).dtype) : c.in(0).dtype, shape);
}

std::vector<Value*> expand_conv3d(Graph& g, const Node& n) {
  const auto a = n.as<Conv>();
  Value *x = n.input(0), *w = n.input(1);
  const Shape y = n.output()->type().shape;
  Value* images = unfold_depth(g, x, w->type().shape[2], y[2], a.stride, a.padding, a.dilation);
  const Conv plane{in_plane(a.stride), in_plane(a.padding), in_plane(a.dilation), a.groups, a.wide};
  return {images_to_depth(g, conv2d(g, images, taps_to_channels(g, w), plane), y[0], y[2])};
}

Type transpose3d_type(const InferContext& c) {
  const auto a = c.as<ConvTranspose>();
  require_conv3d(c, a.stride, a.padding, a.dilation, a.groups);
  const Shape &x = c.in(0).shape, &w = c.in(1).shape;
  if (a.size.size() != 3 || !assume_eq(x[1], w[0]) || !assume_eq(mod(w[0], a.groups), 0)) {
    fail(ErrorCode::shape_mismatch, "conv_transpose3d: ", c.in(0), " with weights ", c.in(1),
         " in ", a.groups, " groups to ", a.size.size(), " sizes: channels must be ", w[0],
         ", a multiple of the groups, and there must be three sizes");
  }
  for (std::size_t k = 0; k < 3; ++k) {
    const Dim windows =
        conv_output_size(a.size[k], w[k + 2], a.stride[k], a.padding[k], a.dilation[k]);
    if (!assume_le(1, x[k + 2]) || !assume_le(x[k + 2], windows)) {
      fail(ErrorCode::shape_mismatch, "conv_transpose3d: size ", a.size[k], " has room for ",
           windows, " windows, but ", c.in(0), " has ", x[k + 2], " elements on axis ", k + 2);
    }
  }
  const DType dtype = a.wide ? compute_type(c.in(0).dtype) : c.in(0).dtype;
  return Type::tensor(dtype, {x[0], w[1] * Dim(a.groups), a.size[0], a.size[1], a.size[2]});
}

// Each tap along the depth makes its own images, which are added at their positions.
std::vector<Value*> expand_transpose3d(Graph& g, const Node& n) {
  const auto a = n.as<ConvTranspose>();
  Value *x = n.input(0), *w = n.input(1);
  const Shape in = x->type().shape, out = n.output()->type().shape;
  const std::int64_t taps = constant_taps(w->type().shape[2]);
  const ConvTranspose plane{in_plane(a.stride),     in_plane(a.padding),
                            in_plane(a.dilation),   a.groups,
                            {a.size[1], a.size[2]}, is_low_float(x->type().dtype)};
  Value* images = conv_transpose2d(g, depth_to_images(g, x), taps_to_channels(g, w), plane);
  images = reshape(g, images, {in[0], in[2], out[1], Dim(taps), out[3], out[4]});
  Value* sum = nullptr;
  for (std::int64_t t = 0; t < taps; ++t) {
    Value* part = transpose(g, select(g, images, 3, t), {0, 2, 1, 3, 4});
    part = spread_with_zeros(g, part, 2, a.stride[0]);
    Dims low(5), high(5);
    low[2] = Dim(t * a.dilation[0] - a.padding[0]);
    high[2] = out[2] - low[2] - part->type().shape[2];
    part = pad(g, part, low, high);
    sum = sum == nullptr ? part : add(g, sum, part);
  }
  return {cast(g, sum, n.output()->type().dtype)};
}

}  // namespace

Value* conv3d_weight_grad(Graph& g, Value* x, Value* grad, const ConvWeightGrad& a) {
  const Dim windows = grad->type().shape[2], channels = grad->type().shape[1];
  const Dim per_group = floordiv(x->type().shape[1], a.groups);
  Value* images = unfold_depth(g, x, a.kernel[0], windows, a.stride, a.padding, a.dilation);
  const ConvWeightGrad plane{in_plane(a.stride),
                             in_plane(a.padding),
                             in_plane(a.dilation),
                             a.groups,
                             {a.kernel[1], a.kernel[2]}};
  Value* w = conv2d_weight_grad(g, images, depth_to_images(g, grad), plane);
  return reshape(g, w, {channels, per_group, a.kernel[0], a.kernel[1], a.kernel[2]});
}

void register_conv3d() {
  Definition("conv3d",
             "Cross-correlation of [N, C, D, H, W] with weights [O, C/groups, KD, KH, KW].")
      .in({"x", "weight"})
      .attrs<Conv>()
      .traits(Trait::pure)
      .infer_one(conv3d_type)
      .expand(expand_conv3d)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({Dim(1), Dim(4), s + 3, Dim(4), Dim(5)}),
                         data({Dim(2), Dim(2), Dim(3), Dim(2), Dim(3)})},
                        {{"stride", Ints{2, 1, 2}},
                         {"padding", Ints{1, 0, 1}},
                         {"dilation", Ints{1, 1, 1}},
                         {"groups", std::int64_t{2}}},
                        {}};
      })
      .define();
  Definition("conv_transpose3d",
             "Transposed convolution of [N, O, d, h, w] with weights [O, C/groups, KD, KH, KW] to "
             "[N, C, size].")
      .in({"x", "weight"})
      .attrs<ConvTranspose>()
      .traits(Trait::pure)
      .infer_one(transpose3d_type)
      .expand(expand_transpose3d)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({Dim(1), Dim(2), s + 1, Dim(3), Dim(2)}),
                         data({Dim(2), Dim(2), Dim(3), Dim(2), Dim(3)})},
                        {{"stride", Ints{2, 1, 2}},
                         {"padding", Ints{1, 0, 1}},
                         {"dilation", Ints{1, 1, 1}},
                         {"groups", std::int64_t{2}},
                         {"size", Dims{s * 2 + 1, Dim(4), Dim(3)}}},
                        {}};
      })
      .define();
}

}  // namespace gex::ops
