// PyTorch's convolution and its gradient: one to three spatial axes, plain and transposed.

#include <algorithm>

#include "ops/conv.hpp"
#include "ops/core/build.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

bool all_are(const Ints& values, std::int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == value; });
}

// A convolution's geometry in both overloads, from argument `at` on: stride, padding, dilation,
// transposed, output_padding, groups. One spatial axis becomes two, the first of size one.
struct Geometry {
  std::size_t axes;  // spatial, as the call counts them
  Ints stride, padding, dilation, output_padding;
  bool transposed;
  std::int64_t groups;

  Geometry(const AtenCall& c, std::size_t at, int rank)
      : axes(static_cast<std::size_t>(rank) - 2),
        stride(entries(c, at, 1)),
        padding(entries(c, at + 1, 0)),
        dilation(entries(c, at + 2, 1)),
        output_padding(entries(c, at + 4, 0)),
        transposed(c.flag(at + 3)),
        groups(c.integer(at + 5)) {}

  Value* raised(Graph& g, Value* x) const { return axes == 1 ? unsqueeze(g, x, 2) : x; }
  Value* lowered(Graph& g, Value* x) const { return axes == 1 ? squeeze(g, x, 2) : x; }
  const char* plain_op() const { return axes == 3 ? "conv3d" : "conv2d"; }
  const char* transposed_op() const { return axes == 3 ? "conv_transpose3d" : "conv_transpose2d"; }

  Value* plain(Graph& g, Value* x, Value* w, bool wide) const {
    return apply(g, plain_op(), {x, w}, Conv{stride, padding, dilation, groups, wide});
  }
  // To the spatial sizes of `shape`.
  Value* transpose(Graph& g, Value* x, Value* w, const Shape& shape, bool wide) const {
    return apply(
        g, transposed_op(), {x, w},
        ConvTranspose{stride, padding, dilation, groups, {shape.begin() + 2, shape.end()}, wide});
  }
  Value* weight_grad(Graph& g, Value* x, Value* grad, const Shape& weight) const {
    const ConvWeightGrad a{stride, padding, dilation, groups, {weight.begin() + 2, weight.end()}};
    return axes == 3 ? conv3d_weight_grad(g, x, grad, a) : conv2d_weight_grad(g, x, grad, a);
  }

 private:
  Ints entries(const AtenCall& c, std::size_t i, std::int64_t fill) const {
    Ints values = c.integers(i);
    values.resize(axes, values.empty() ? fill : values[0]);
    if (axes == 1) values.insert(values.begin(), fill);
    return values;
  }
};

Value* with_bias(AtenCall& c, Value* y) {
  if (c.none(2)) return y;
  Graph& g = c.graph();
  Shape shape(y->type().shape.size() - 1, Dim(1));
  Value* bias = cast(g, c.tensor(2), y->type().dtype);
  shape[0] = bias->type().shape[0];
  return add(g, y, reshape(g, bias, shape));
}

// A transposed convolution whose windows don't overlap (patches to pixels) is one matmul: each
// input pixel makes its own patch.
bool makes_patches(const Geometry& form, const Shape& w) {
  for (std::size_t k = 0; k < 2; ++k) {
    if (w[k + 2] != Dim(form.stride[k])) return false;
  }
  return form.axes < 3 && form.groups == 1 && all_are(form.padding, 0) &&
         all_are(form.dilation, 1) && all_are(form.output_padding, 0);
}

Value* patches(Graph& g, Value* x, Value* weight, bool wide) {
  const Shape in = x->type().shape, w = weight->type().shape;
  const Dim pixels = in[0] * in[2] * in[3];
  Value* rows = reshape(g, transpose(g, x, {0, 2, 3, 1}), {pixels, in[1]});
  Value* y = matmul(g, rows, reshape(g, weight, {w[0], w[1] * w[2] * w[3]}), wide);
  y = reshape(g, y, {in[0], in[2], in[3], w[1], w[2], w[3]});
  y = transpose(g, y, {0, 3, 1, 4, 2, 5});
  return reshape(g, y, {in[0], w[1], in[2] * w[2], in[3] * w[3]});
}

bool has_form(const AtenCall& c, const Type& x) {
  const bool batched = x.rank() >= 3 && x.rank() <= 5;
  return batched && is_float(x.dtype) && !c.results().empty();
}

// x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
std::vector<Value*> import_convolution(AtenCall& c) {
  Graph& g = c.graph();
  if (!has_form(c, c.tensor(0)->type())) return {};
  const Geometry form(c, 3, c.tensor(0)->type().rank());
  Value *x = form.raised(g, c.tensor(0)), *weight = form.raised(g, c.tensor(1));
  const bool wide = is_low_float(c.result().dtype) && !c.none(2);
  Shape result = c.result().shape;
  if (form.axes == 1) result.insert(result.begin() + 2, Dim(1));
  Value* y = nullptr;
  if (!form.transposed) {
    y = form.plain(g, x, weight, wide);
  } else if (makes_patches(form, weight->type().shape)) {
    y = patches(g, x, weight, wide);
  } else {
    y = form.transpose(g, x, weight, result, wide);
  }
  return one(to_result(c, form.lowered(g, with_bias(c, y))));
}

// Kernels with Form::rows in src/backend/cpu/kernels.
bool has_row_form(const Geometry& form, const Shape& weight, Dim in, Dim out) {
  constexpr std::int64_t kChannels = 8;
  const auto rows = weight[2].as_const(), columns = weight[3].as_const();
  const bool square = form.axes == 2 && rows && rows == columns && (*rows == 3 || *rows == 5);
  return square && all_are(form.dilation, 1) &&
         (all_are(form.stride, 1) || all_are(form.stride, 2)) && known_le(in, kChannels) == true &&
         known_le(out, kChannels) == true;
}

// PyTorch's kernels are faster if groups are narrow and taps are few: groups of several channels
// fill no matmul here, and groups of few channels, which have their own kernels, are slower with
// strides or small images.
bool is_faster_as_call(const Geometry& form, const Shape& weight, const Shape& grad) {
  constexpr std::int64_t kThin = 4, kFew = 32, kFewTaps = 9, kSmallImage = 64;
  const Dim in = weight[1], out = floordiv(weight[0], form.groups);
  const bool few = known_lt(in, kFew) == true || known_lt(out, kFew) == true;
  if (form.groups == 1 || !few) return false;
  if (form.axes == 3) return true;
  if (known_le(weight[2] * weight[3], kFewTaps) != true || has_row_form(form, weight, in, out)) {
    return false;
  }
  const bool thin = known_le(in, kThin) == true && known_le(out, kThin) == true;
  const bool small = form.axes == 2 && known_le(grad[2] * grad[3], kSmallImage) == true;
  return !thin || !all_are(form.stride, 1) || small;
}

// x cut to the spatial sizes if a plain convolution returned more.
Value* cut_to(Graph& g, Value* x, const Shape& shape) {
  for (std::size_t k = 2; k < shape.size(); ++k) {
    x = slice(g, x, static_cast<std::int64_t>(k), 0, shape[k]);
  }
  return x;
}

// grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask
std::vector<Value*> import_convolution_backward(AtenCall& c) {
  Graph& g = c.graph();
  if (!has_form(c, c.tensor(1)->type())) return {};
  const Geometry form(c, 4, c.tensor(1)->type().rank());
  Value *grad = form.raised(g, c.tensor(0)), *x = form.raised(g, c.tensor(1));
  Value* weight = form.raised(g, c.tensor(2));
  const Shape in = x->type().shape, w = weight->type().shape;
  if (is_faster_as_call(form, w, grad->type().shape)) return {};
  std::vector<Value*> results(3, nullptr);
  if (asked_for(c, 10, 0)) {
    Value* dx = form.transposed ? cut_to(g, form.plain(g, grad, weight, false), in)
                                : form.transpose(g, grad, weight, in, false);
    results[0] = to_result(c, form.lowered(g, dx), 0);
  }
  if (asked_for(c, 10, 1)) {
    // A transposed convolution is the gradient of a plain one: its input and its incoming gradient
    // change roles.
    Value* dw = form.transposed ? form.weight_grad(g, grad, x, w) : form.weight_grad(g, x, grad, w);
    results[1] = to_result(c, form.lowered(g, dw), 1);
  }
  if (asked_for(c, 10, 2)) {
    Ints axes = all_axes(grad->type().rank());
    axes.erase(axes.begin() + 1);
    results[2] = to_result(c, reduce_sum(g, grad, axes), 2);
  }
  return results;
}

}  // namespace

void register_conv_rows() {
  register_aten_row("aten.convolution.default", import_convolution);
  register_aten_row("aten.convolution_backward.default", import_convolution_backward);
  register_aten_facts({"aten.convolution"}, {.padding = AtenFacts::Padding::convolves});
}

}  // namespace gex::ops
