// The two gradients of a convolution. That of the input, which is also the transposed convolution,
// becomes convolutions with stride one; that of the weights is a problem, and its expansion is its
// definition.

#include <algorithm>

#include "ops/conv.hpp"
#include "ops/core/build.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/problem_rules.hpp"
#include "problems/conv2d.hpp"

namespace gex::ops {

namespace {

// Weights [O, C/groups, ...] as those of a convolution from O channels to C.
Value* swap_channels(Graph& g, Value* w, std::int64_t groups) {
  if (groups == 1) return transpose(g, w, {1, 0, 2, 3});
  const Shape s = w->type().shape;
  const Dim out = floordiv(s[0], groups);
  Value* grouped = reshape(g, w, {Dim(groups), out, s[1], s[2], s[3]});
  grouped = transpose(g, grouped, {0, 2, 1, 3, 4});
  return reshape(g, grouped, {s[1] * Dim(groups), out, s[2], s[3]});
}

struct Border {
  Dim low, high;  // zeros before and after; negative: cropped
};

// conv2d with stride one over x with a border. Equal borders are the op's own padding; others are a
// pad, which the kernel takes as its border (is_conv_border) if no side is cropped.
Value* correlate(Graph& g, Value* x, Value* w, const ConvTranspose& form, const Ints& dilation,
                 const Border (&border)[2]) {
  Conv attrs;
  attrs.dilation = dilation;
  attrs.groups = form.groups;
  attrs.wide = form.wide;
  Dims low(4), high(4);
  for (std::size_t k = 0; k < 2; ++k) {
    const auto l = border[k].low.as_const(), h = border[k].high.as_const();
    if (l && h && *l == *h && *l >= 0) {
      attrs.padding[k] = *l;
    } else {
      low[k + 2] = border[k].low;
      high[k + 2] = border[k].high;
    }
  }
  const Dims none(4);
  if (low != none || high != none) x = pad(g, x, low, high);
  return conv2d(g, x, w, attrs);
}

// Results y = start, start+stride, ... of one axis: they read the taps phase, phase+stride, ... at
// neighbouring elements.
struct Phase {
  std::int64_t start = 0, phase = 0, taps = 0;
  Dim count;
  Border border;
};

Phase phase_from(std::int64_t start, std::int64_t stride, std::int64_t padding, std::int64_t taps,
                 Dim in, Dim out) {
  Phase p;
  p.start = start;
  p.phase = (start + padding) % stride;
  p.taps = p.phase < taps ? (taps - p.phase + stride - 1) / stride : 0;
  p.count = ceildiv(out - Dim(start), stride);
  p.border.low = Dim(p.taps - 1 - (start + padding) / stride);
  p.border.high = p.count - in - p.border.low + Dim(p.taps - 1);
  return p;
}

// Taps phase, phase+stride, ... of an axis, last first.
Value* taps_of(Graph& g, Value* w, std::int64_t axis, const Phase& p, std::int64_t stride) {
  return flip(g, slice(g, w, axis, p.phase, p.taps, stride), {axis});
}

// Each phase is a separate convolution with a part of the taps; no zeros are multiplied.
Value* transpose_by_phases(Graph& g, Value* x, Value* w, const ConvTranspose& form,
                           const Ints& taps) {
  const Shape in = x->type().shape;
  const DType dtype = form.wide ? compute_type(x->type().dtype) : x->type().dtype;
  auto phase = [&](std::size_t axis, std::int64_t start) {
    return phase_from(start, form.stride[axis], form.padding[axis], taps[axis], in[axis + 2],
                      form.size[axis]);
  };
  const Dim rows = ceildiv(form.size[0], form.stride[0]);
  const Dim columns = ceildiv(form.size[1], form.stride[1]);
  std::vector<Value*> bands;
  for (std::int64_t y = 0; y < form.stride[0]; ++y) {
    const Phase py = phase(0, y);
    std::vector<Value*> parts;
    for (std::int64_t x0 = 0; x0 < form.stride[1]; ++x0) {
      const Phase px = phase(1, x0);
      Value* part = nullptr;
      if (py.taps == 0 || px.taps == 0) {
        part = full(g, dtype, 0, {in[0], w->type().shape[0], rows, columns});
      } else {
        Value* some = taps_of(g, taps_of(g, w, 2, py, form.stride[0]), 3, px, form.stride[1]);
        part = correlate(g, x, some, form, {1, 1}, {py.border, px.border});
        const Dims short_of{Dim(0), Dim(0), rows - py.count, columns - px.count};
        if (short_of != Dims(4)) part = pad(g, part, Dims(4), short_of);
      }
      parts.push_back(reshape(g, part, {in[0], w->type().shape[0], rows, Dim(1), columns, Dim(1)}));
    }
    bands.push_back(cat(g, parts, 5));
  }
  Value* all = reshape(
      g, cat(g, bands, 3),
      {in[0], w->type().shape[0], rows * Dim(form.stride[0]), columns * Dim(form.stride[1])});
  all = slice(g, all, 2, 0, form.size[0]);
  return slice(g, all, 3, 0, form.size[1]);
}

// Small images of many channels: the weights are by far the largest operand, and as the left side
// of one matmul over all pixels they are read once, in place, instead of packed for each image. But
// adding up the products of a pixel takes as long as packing those of some channels.
bool is_product(const Shape& x, const Shape& w, std::int64_t groups) {
  constexpr std::int64_t kPixels = 64, kChannels = 128, kTaps = 49, kChannelsOfPixel = 6;
  const auto pixels = (x[2] * x[3]).as_const(), taps = (w[2] * w[3]).as_const();
  return groups == 1 && pixels && taps && *pixels <= kPixels && *taps > 1 && *taps <= kTaps &&
         known_le(kChannels, w[0]) == true && known_le(*pixels * kChannelsOfPixel, w[0]) == true;
}

// Steps that don't divide the kernel give phases with different numbers of taps, each a small
// convolution, and their results have to be interleaved. One matmul is faster as long as its result
// stays in the caches.
bool is_uneven_product(const Shape& x, const Shape& w, const ConvTranspose& form) {
  constexpr std::int64_t kElements = 2 << 20, kChannels = 32, kTaps = 49;
  const auto count = (x[0] * x[2] * x[3] * w[1] * w[2] * w[3]).as_const();
  const auto rows = w[2].as_const(), columns = w[3].as_const();
  if (form.groups != 1 || !count || !rows || !columns) return false;
  const bool uneven = *rows % form.stride[0] != 0 && *columns % form.stride[1] != 0;
  return uneven && form.stride[0] > 1 && form.stride[1] > 1 && *rows > form.stride[0] &&
         *columns > form.stride[1] && *rows * *columns <= kTaps && *count <= kElements &&
         known_le(kChannels, w[0]) == true && known_le(kChannels, w[1]) == true;
}

// The products of each tap are added at their positions.
Value* transpose_by_product(Graph& g, Value* x, Value* w, const ConvTranspose& form) {
  const Shape in = x->type().shape, taps = w->type().shape;
  const Dim groups(form.groups), depth = floordiv(taps[0], groups);
  Shape left_shape = {groups, depth, taps[1] * taps[2] * taps[3]};
  Shape right_shape = {groups, depth, in[0] * in[2] * in[3]};
  if (form.groups == 1) {
    left_shape.erase(left_shape.begin());
    right_shape.erase(right_shape.begin());
  }
  const auto last = static_cast<std::int64_t>(left_shape.size()) - 1;
  Value* left = swap_axes(g, reshape(g, w, left_shape), last - 1, last);
  Value* right = reshape(g, transpose(g, x, {1, 0, 2, 3}), right_shape);
  Value* product = matmul(g, left, right, is_low_float(x->type().dtype));
  product = reshape(g, product, {groups * taps[1], taps[2] * taps[3], in[0], in[2], in[3]});
  Value* sum = nullptr;
  for (std::int64_t t = 0; t < (taps[2] * taps[3]).constant(); ++t) {
    const std::int64_t at[2] = {t / taps[3].constant(), t % taps[3].constant()};
    Value* part = select(g, product, 1, t);
    Dims low(4), high(4);
    for (std::size_t k = 0; k < 2; ++k) {
      part = spread_with_zeros(g, part, static_cast<std::int64_t>(k) + 2, form.stride[k]);
      low[k + 2] = Dim(at[k] * form.dilation[k] - form.padding[k]);
      high[k + 2] = form.size[k] - low[k + 2] - part->type().shape[k + 2];
    }
    part = pad(g, part, low, high);
    sum = sum == nullptr ? part : add(g, sum, part);
  }
  return transpose(g, sum, {1, 0, 2, 3});
}

// Narrow groups with strides have their own kernel, see src/backend/cpu/kernels/conv2d.hpp.
bool has_input_grad_kernel(const Shape& w, const ConvTranspose& form, Dim width) {
  constexpr std::int64_t kChannels = 8, kWidth = 64 * 1024;
  const auto rows = w[2].as_const(), columns = w[3].as_const();
  return rows && rows == columns && (*rows == 3 || *rows == 5) && form.stride == Ints{2, 2} &&
         form.dilation == Ints{1, 1} && known_le(w[1], kChannels) == true &&
         known_le(floordiv(w[0], form.groups), kChannels) == true &&
         known_le(width, kWidth) == true;
}

std::vector<Value*> expand_input_grad(Graph& g, const Node& n) {
  // Like the kernel: nothing is multiplied by padding zeros, so weights that are not finite affect
  // only their taps.
  Value* sum = transpose_by_product(g, n.input(0), n.input(1), n.as<ConvTranspose>());
  return {cast(g, sum, n.output()->type().dtype)};
}

std::vector<Value*> expand_transpose(Graph& g, const Node& n) {
  const auto form = n.as<ConvTranspose>();
  Value* x = n.input(0);
  if (is_product(x->type().shape, n.input(1)->type().shape, form.groups) ||
      is_uneven_product(x->type().shape, n.input(1)->type().shape, form)) {
    return {cast(g, transpose_by_product(g, x, n.input(1), form), n.output()->type().dtype)};
  }
  if (has_input_grad_kernel(n.input(1)->type().shape, form, form.size[1])) {
    return {apply(g, "conv2d_input_grad", {x, n.input(1)}, form)};
  }
  Value* w = swap_channels(g, n.input(1), form.groups);
  Ints taps;
  for (std::size_t k = 2; k < 4; ++k) {
    if (auto size = w->type().shape[k].as_const()) taps.push_back(*size);
  }
  const bool steps = form.stride[0] > 1 || form.stride[1] > 1;
  if (steps && taps.size() == 2 && form.dilation == Ints{1, 1}) {
    return {transpose_by_phases(g, x, w, form, taps)};
  }
  Border border[2];
  for (std::size_t k = 0; k < 2; ++k) {
    x = spread_with_zeros(g, x, static_cast<std::int64_t>(k) + 2, form.stride[k]);
    const Dim reach = Dim(form.dilation[k]) * (w->type().shape[k + 2] - 1);
    border[k].low = reach - Dim(form.padding[k]);
    border[k].high = form.size[k] - x->type().shape[k + 2] - border[k].low + reach;
  }
  return {correlate(g, x, flip(g, w, {2, 3}), form, form.dilation, border)};
}

Type transpose_type(const InferContext& c) {
  const auto a = c.as<ConvTranspose>();
  require_convolution(c, 2, a.stride, a.padding, a.dilation, a.groups);
  const Shape &x = c.in(0).shape, &w = c.in(1).shape;
  if (a.size.size() != 2 || !assume_eq(x[1], w[0]) || !assume_eq(mod(w[0], a.groups), 0)) {
    fail(ErrorCode::shape_mismatch, "conv_transpose2d: ", c.in(0), " with weights ", c.in(1),
         " in ", a.groups, " groups to ", a.size.size(), " sizes: channels must be ", w[0],
         ", a multiple of the groups, and there must be two sizes");
  }
  for (std::size_t k = 0; k < 2; ++k) {
    const Dim windows =
        conv_output_size(a.size[k], w[k + 2], a.stride[k], a.padding[k], a.dilation[k]);
    if (!assume_le(1, w[k + 2]) || !assume_le(1, x[k + 2]) || !assume_le(x[k + 2], windows)) {
      fail(ErrorCode::shape_mismatch, "conv_transpose2d: size ", a.size[k], " has room for ",
           windows, " windows of ", w[k + 2], " taps, but ", c.in(0), " has ", x[k + 2],
           " elements on axis ", k + 2);
    }
  }
  const DType dtype = a.wide ? compute_type(c.in(0).dtype) : c.in(0).dtype;
  return Type::tensor(dtype, {x[0], w[1] * Dim(a.groups), a.size[0], a.size[1]});
}

bool takes_transposed_kernel(const Shape& w, const ConvTranspose& form) {
  const auto channels = w[0].as_const(), rows = w[2].as_const(), columns = w[3].as_const();
  if (!channels || !rows || !columns || form.groups != 1 || form.dilation != Ints{1, 1})
    return false;
  return (form.stride[0] > 1 || form.stride[1] > 1) &&
         problems::has_up_kernel(*channels, *rows, *columns, {form.stride[0], form.stride[1]},
                                 {form.padding[0], form.padding[1]});
}

// Steps of one become a plain convolution.
Type transposed_type(const InferContext& c) {
  const Type type = transpose_type(c);
  if (!takes_transposed_kernel(c.in(1).shape, c.as<ConvTranspose>())) {
    fail(ErrorCode::invalid_argument, "conv2d_transposed: weights ", c.in(1),
         ": there must be one group, dilations of 1, a step above 1 and constant weights of a size "
         "that the kernel takes; conv_transpose2d takes any");
  }
  return type;
}

std::vector<Value*> expand_transposed(Graph& g, const Node& n) {
  const auto form = n.as<ConvTranspose>();
  Value* w = swap_channels(g, n.input(1), form.groups);
  const Shape& taps = w->type().shape;
  return {transpose_by_phases(g, n.input(0), w, form, {taps[2].constant(), taps[3].constant()})};
}

Type input_grad_type(const InferContext& c) {
  const Type type = transpose_type(c);
  const auto a = c.as<ConvTranspose>();
  if (!has_input_grad_kernel(c.in(1).shape, a, a.size[1])) {
    fail(ErrorCode::invalid_argument, "conv2d_input_grad: weights ", c.in(1), " in ", a.groups,
         " groups to a width of ", a.size[1],
         ": groups must have at most 8 channels, kernels 3x3 or 5x5 taps, strides of 2, and"
         " rows 65536 pixels at most; conv_transpose2d takes any");
  }
  return type;
}

// A convolution whose images are the channels of x and whose taps are the pixels of grad: strides
// and dilations change roles.
std::vector<Value*> expand_weight_grad(Graph& g, const Node& n) {
  const auto a = n.as<ConvWeightGrad>();
  Value *x = n.input(0), *grad = n.input(1);
  const Shape result = n.output()->type().shape, s = x->type().shape;
  const Dim images = s[0], per_group = result[1];
  x = reshape(g, x, {images, Dim(a.groups), per_group, s[2], s[3]});
  x = reshape(g, transpose(g, x, {2, 1, 0, 3, 4}), {per_group, Dim(a.groups) * images, s[2], s[3]});
  Conv attrs;
  attrs.stride = a.dilation;
  attrs.dilation = a.stride;
  attrs.padding = a.padding;
  attrs.groups = a.groups;
  Value* y = conv2d(g, x, transpose(g, grad, {1, 0, 2, 3}), attrs);
  y = slice(g, slice(g, y, 2, 0, result[2]), 3, 0, result[3]);
  return {transpose(g, y, {1, 0, 2, 3})};
}

Type weight_grad_type(const InferContext& c) {
  const auto a = c.as<ConvWeightGrad>();
  require_convolution(c, 2, a.stride, a.padding, a.dilation, a.groups);
  const Shape &x = c.in(0).shape, &grad = c.in(1).shape;
  if (a.kernel.size() != 2 || !assume_eq(x[0], grad[0]) || !assume_eq(mod(x[1], a.groups), 0) ||
      !assume_eq(mod(grad[1], a.groups), 0)) {
    fail(ErrorCode::shape_mismatch, "conv2d_weight_grad: ", c.in(0), " and ", c.in(1), " in ",
         a.groups, " groups with ", a.kernel.size(),
         " kernel sizes: images must be equal, channels",
         " multiples of the groups, and there must be two kernel sizes");
  }
  for (std::size_t k = 0; k < 2; ++k) {
    const Dim windows =
        conv_output_size(x[k + 2], a.kernel[k], a.stride[k], a.padding[k], a.dilation[k]);
    if (!assume_le(1, a.kernel[k]) || !assume_le(1, grad[k + 2]) ||
        !assume_le(grad[k + 2], windows)) {
      fail(ErrorCode::shape_mismatch, "conv2d_weight_grad: axis ", k + 2, " of ", c.in(0),
           " has room for ", windows, " windows of ", a.kernel[k], " taps, but ", c.in(1), " has ",
           grad[k + 2], " elements there");
    }
  }
  return Type::tensor(c.in(0).dtype, {grad[1], floordiv(x[1], a.groups), a.kernel[0], a.kernel[1]});
}

void register_transposed() {
  Definition("conv2d_transposed",
             "conv_transpose2d with steps, of one group and few taps, as one kernel.")
      .in({"x", "weight"})
      .attrs<ConvTranspose>()
      .traits(Trait::pure | Trait::contraction)
      .infer_one(transposed_type)
      .expand(expand_transposed)
      .problem(conv2d_transposed_rule())
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data({Dim(2), Dim(5), s + 1, Dim(3)}), data({Dim(5), Dim(3), Dim(4), Dim(3)})},
            {{"stride", Ints{2, 3}}, {"padding", Ints{1, 0}}, {"size", Dims{s * 2 + 3, Dim(10)}}},
            {}};
      })
      .define();
}

}  // namespace

bool has_transposed_kernel(const Node& node) {
  return takes_transposed_kernel(node.input(1)->type().shape, node.as<ConvTranspose>());
}

Value* conv2d_transposed(Graph& g, const Node& node) {
  return apply(g, "conv2d_transposed", {node.input(0), node.input(1)}, node.as<ConvTranspose>());
}

Value* spread_with_zeros(Graph& g, Value* x, std::int64_t axis, std::int64_t step) {
  if (step == 1) return x;
  const auto k = static_cast<std::size_t>(axis);
  Shape shape = x->type().shape;
  const Dim size = shape[k];
  x = unsqueeze(g, x, axis + 1);
  Dims high(shape.size() + 1);
  high[k + 1] = Dim(step - 1);
  x = pad(g, x, Dims(shape.size() + 1), high);
  shape[k] = size * Dim(step);
  return slice(g, reshape(g, x, shape), axis, 0, (size - 1) * Dim(step) + 1);
}

Value* conv_transpose2d(Graph& g, Value* x, Value* weight, const ConvTranspose& attrs) {
  return apply(g, "conv_transpose2d", {x, weight}, attrs);
}

Value* conv2d_weight_grad(Graph& g, Value* x, Value* grad, const ConvWeightGrad& attrs) {
  return apply(g, "conv2d_weight_grad", {x, grad}, attrs);
}

void register_conv_grad() {
  Definition("conv_transpose2d",
             "Transposed convolution of [N, O, h, w] with weights [O, C/groups, KH, KW] to "
             "[N, C, size]: the gradient of conv2d with respect to its input.")
      .in({"x", "weight"})
      .attrs<ConvTranspose>()
      .traits(Trait::pure)
      .infer_one(transpose_type)
      .expand(expand_transpose)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data({Dim(2), Dim(6), s + 1, Dim(3)}), data({Dim(6), Dim(2), Dim(3), Dim(3)})},
            {{"stride", Ints{2, 1}},
             {"padding", Ints{1, 0}},
             {"groups", std::int64_t{2}},
             {"size", Dims{s * 2 + 2, Dim(5)}}},
            {}};
      })
      .define();
  register_transposed();
  Definition("conv2d_input_grad",
             "conv_transpose2d of narrow groups with few taps and steps of two.")
      .in({"x", "weight"})
      .attrs<ConvTranspose>()
      .traits(Trait::pure | Trait::contraction)
      .infer_one(input_grad_type)
      .expand(expand_input_grad)
      .problem(conv2d_input_grad_rule())
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data({Dim(2), Dim(6), s + 1, Dim(3)}), data({Dim(6), Dim(2), Dim(3), Dim(3)})},
            {{"stride", Ints{2, 2}},
             {"padding", Ints{1, 0}},
             {"groups", std::int64_t{2}},
             {"size", Dims{s * 2 + 2, Dim(7)}}},
            {}};
      })
      .define();
  Definition("conv2d_weight_grad",
             "The gradient of conv2d with respect to its weights, from its input [N, C, H, W] and "
             "the gradient [N, O, OH, OW] of its result.")
      .in({"x", "grad"})
      .attrs<ConvWeightGrad>()
      .traits(Trait::pure | Trait::contraction)
      .infer_one(weight_grad_type)
      .expand(expand_weight_grad)
      .problem(conv2d_weight_grad_rule())
      .sample([] {
        const Dim s = sample_size();
        return OpSample{
            {data({Dim(2), Dim(4), s * 2 + 1, Dim(5)}), data({Dim(2), Dim(6), s, Dim(3)})},
            {{"stride", Ints{2, 1}}, {"groups", std::int64_t{2}}, {"kernel", Dims{Dim(3), Dim(3)}}},
            {}};
      })
      .define();
}

}  // namespace gex::ops
