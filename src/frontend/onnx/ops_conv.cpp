// Convolutions.

#include <algorithm>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/views.hpp"
#include "frontend/onnx/windows.hpp"
#include "ops/conv.hpp"

namespace gex::onnx {

Shape spatial_of(const Value* x) {
  const Shape& s = x->type().shape;
  return {s.begin() + 2, s.end()};
}

Dims for_all_axes(const Dims& spatial) {
  Dims all(2);
  all.insert(all.end(), spatial.begin(), spatial.end());
  return all;
}

Ints kernel_of(const Row& r, const Value* weight) {
  Ints kernel;
  for (const Dim d : spatial_of(weight)) {
    if (!d.is_const()) r.refuse("the size of the kernel is not known");
    kernel.push_back(d.constant());
  }
  return kernel;
}

WindowSpec window_spec(const Row& r, const Ints& kernel, const Shape& sizes, bool ceil) {
  const std::size_t axes = sizes.size();
  WindowSpec w{kernel,
               r.ints_attr("strides", Ints(axes, 1)),
               r.ints_attr("dilations", Ints(axes, 1)),
               Dims(axes),
               Dims(axes),
               Dims(axes),
               Dims(axes)};
  const Ints pads = r.ints_attr("pads", Ints(2 * axes, 0));
  if (kernel.size() != axes || w.stride.size() != axes || w.dilation.size() != axes ||
      pads.size() != 2 * axes)
    r.refuse(str("kernel, strides, dilations and pads do not match ", axes, " spatial axes"));
  const std::string automatic = r.string_attr("auto_pad", "NOTSET");
  for (std::size_t d = 0; d < axes; ++d) {
    const Dim reach = w.dilation[d] * (kernel[d] - 1) + 1;
    if (w.stride[d] < 1 || w.dilation[d] < 1 || kernel[d] < 1)
      r.refuse("kernel, strides and dilations must be at least 1");
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      w.windows[d] = ceildiv(sizes[d], w.stride[d]);
      const Dim total = gex::max((w.windows[d] - 1) * Dim(w.stride[d]) + reach - sizes[d], 0);
      const Dim half = floordiv(total, 2);
      w.low[d] = automatic == "SAME_UPPER" ? half : total - half;
      w.high[d] = total - w.low[d];
      continue;
    }
    if (automatic != "VALID") {
      w.low[d] = pads[d];
      w.high[d] = pads[d + axes];
    }
    const Dim room = sizes[d] + w.low[d] + w.high[d] - reach;
    w.windows[d] = floordiv(room, w.stride[d]) + 1;
    if (!ceil) continue;
    // One more window if it begins inside the tensor or the pads before it.
    w.windows[d] =
        gex::min(ceildiv(room, w.stride[d]) + 1, ceildiv(sizes[d] + w.low[d], w.stride[d]));
    w.beyond[d] = gex::max((w.windows[d] - 1) * Dim(w.stride[d]) - room, 0);
  }
  return w;
}

namespace {

// A second spatial axis of size 1 for tensors that have one.
Value* with_plane(Graph& g, Value* x) { return ops::unsqueeze(g, x, 2); }

Ints with_front(const Ints& values, std::int64_t first) {
  Ints all{first};
  all.insert(all.end(), values.begin(), values.end());
  return all;
}

}  // namespace

Value* convolve(const Row& r, Value* x, Value* weight, const WindowSpec& spec,
                std::int64_t groups) {
  Graph& g = r.g;
  const std::size_t axes = spec.kernel.size();
  ops::Conv attrs;
  attrs.stride = spec.stride;
  attrs.dilation = spec.dilation;
  attrs.groups = groups;
  attrs.padding = Ints(axes, 0);
  bool symmetric = true;
  for (std::size_t d = 0; d < axes; ++d)
    symmetric = symmetric && spec.low[d] == spec.high[d] && spec.low[d].is_const() &&
                spec.low[d].constant() >= 0;
  if (symmetric)
    for (std::size_t d = 0; d < axes; ++d) attrs.padding[d] = spec.low[d].constant();
  else
    x = ops::pad(g, x, for_all_axes(spec.low), for_all_axes(spec.high), 0);
  if (axes == 2) return ops::conv2d(g, x, weight, attrs);
  if (axes == 3) return ops::apply(g, "conv3d", {x, weight}, attrs);
  if (axes != 1) r.refuse(str("convolutions over ", axes, " spatial axes are not supported"));
  attrs.stride = with_front(attrs.stride, 1);
  attrs.dilation = with_front(attrs.dilation, 1);
  attrs.padding = with_front(attrs.padding, 0);
  Value* y = ops::conv2d(g, with_plane(g, x), with_plane(g, weight), attrs);
  return ops::squeeze(g, y, 2);
}

namespace {

Expr with_bias(Expr y, Value* bias) {
  if (bias == nullptr) return y;
  Shape shape(y.shape().size(), Dim(1));
  shape[1] = bias->type().shape[0];
  return y + reshape(Expr(y.g, bias), shape);
}

}  // namespace

Value* convolution_with_bias(Row& r) {
  const WindowSpec spec = window_spec(r, kernel_of(r, r.in(1)), spatial_of(r.in(0)), false);
  Expr y(r.g, convolve(r, r.in(0), r.in(1), spec, r.int_attr("group", 1)));
  return with_bias(y, r.in_or_null(2));
}

namespace {

Items conv(Row& r) { return r.one(convolution_with_bias(r)); }

Items conv_transpose(Row& r) {
  Graph& g = r.g;
  Value *x = r.in(0), *w = r.in(1);
  const Ints kernel = kernel_of(r, w);
  const std::size_t axes = kernel.size();
  const Shape sizes = spatial_of(x);
  const Ints stride = r.ints_attr("strides", Ints(axes, 1));
  const Ints dilation = r.ints_attr("dilations", Ints(axes, 1));
  const Ints extra = r.ints_attr("output_padding", Ints(axes, 0));
  const Ints pads = r.ints_attr("pads", Ints(2 * axes, 0)), wanted = r.ints_attr("output_shape");
  const std::string automatic = r.string_attr("auto_pad", "NOTSET");
  if (sizes.size() != axes || stride.size() != axes || dilation.size() != axes ||
      extra.size() != axes || pads.size() != 2 * axes || (!wanted.empty() && wanted.size() < axes))
    r.refuse("kernel, strides, dilations and pads do not match the spatial axes");
  // Everything the windows cover, then the pads are removed.
  ops::ConvTranspose attrs{stride, Ints(axes, 0), dilation, r.int_attr("group", 1), {}, false};
  Dims low(axes), high(axes);
  for (std::size_t d = 0; d < axes; ++d) {
    const Dim reach = dilation[d] * (kernel[d] - 1) + 1;
    const Dim covered = Dim(stride[d]) * (sizes[d] - 1) + reach;
    attrs.size.push_back(covered);
    Dim before = pads[d], after = pads[d + axes];
    if (!wanted.empty() || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const Dim out =
          wanted.empty() ? sizes[d] * Dim(stride[d]) : Dim(wanted[wanted.size() - axes + d]);
      const Dim total = covered + Dim(extra[d]) - out;
      const Dim half = floordiv(total, 2);
      before = automatic == "SAME_UPPER" ? half : total - half;
      after = total - before;
    } else if (automatic == "VALID") {
      before = after = 0;
    }
    low[d] = -before;
    high[d] = Dim(extra[d]) - after;
  }
  Value* y = nullptr;
  if (axes == 1) {
    attrs.stride = with_front(stride, 1);
    attrs.dilation = with_front(dilation, 1);
    attrs.padding = {0, 0};
    attrs.size.insert(attrs.size.begin(), Dim(1));
    y = ops::squeeze(g, ops::conv_transpose2d(g, with_plane(g, x), with_plane(g, w), attrs), 2);
  } else if (axes == 2) {
    y = ops::conv_transpose2d(g, x, w, attrs);
  } else if (axes == 3) {
    y = ops::apply(g, "conv_transpose3d", {x, w}, attrs);
  } else {
    r.refuse(str("convolutions over ", axes, " spatial axes are not supported"));
  }
  y = ops::pad(g, y, for_all_axes(low), for_all_axes(high), 0);
  return r.one(with_bias({g, y}, r.in_or_null(2)));
}

// Columns of windows summed into images.
Items col2im(Row& r) {
  Graph& g = r.g;
  const Ints image = r.integers(1, "sizes of the image"),
             block = r.integers(2, "sizes of the block");
  const std::size_t axes = image.size();
  const Ints dilation = r.ints_attr("dilations", Ints(axes, 1));
  const Ints stride = r.ints_attr("strides", Ints(axes, 1));
  const Ints pads = r.ints_attr("pads", Ints(2 * axes, 0));
  const Shape s = r.shape();
  if (block.size() != axes || dilation.size() != axes || stride.size() != axes ||
      pads.size() != 2 * axes || std::ranges::any_of(stride, [](auto v) { return v < 1; }) ||
      std::ranges::any_of(block, [](auto v) { return v < 1; }))
    r.refuse("block, strides, dilations and pads do not match the image");
  std::int64_t taps = 1;
  Dims windows, padded;
  for (std::size_t d = 0; d < axes; ++d) {
    taps *= block[d];
    padded.emplace_back(image[d] + pads[d] + pads[d + axes]);
    windows.emplace_back(
        (image[d] + pads[d] + pads[d + axes] - dilation[d] * (block[d] - 1) - 1) / stride[d] + 1);
  }
  const Dim channels = floordiv(s[1], taps);
  Shape apart{s[0], channels};
  for (const std::int64_t b : block) apart.emplace_back(b);
  apart.insert(apart.end(), windows.begin(), windows.end());
  Value* x = ops::reshape(g, r.in(0), apart);
  // Where element (tap, window) of each axis goes in the padded image.
  std::vector<Value*> places;
  Ints put_axes;
  for (std::size_t d = 0; d < axes; ++d) {
    Shape tap_shape(2 * axes, Dim(1)), window_shape(2 * axes, Dim(1)),
        full(apart.begin() + 2, apart.end());
    tap_shape[d] = block[d];
    window_shape[axes + d] = windows[d];
    Expr tap = reshape(iota(g, block[d]) * static_cast<double>(dilation[d]), tap_shape);
    Expr window = reshape(iota(g, windows[d]) * static_cast<double>(stride[d]), window_shape);
    places.push_back(expand(tap + window, full));
    put_axes.push_back(static_cast<std::int64_t>(d));
  }
  // Batch and channels behind the indexed axes.
  Ints perm;
  for (std::size_t d = 0; d < 2 * axes; ++d) perm.push_back(static_cast<std::int64_t>(d + 2));
  perm.insert(perm.end(), {0, 1});
  Shape target = padded;
  target.insert(target.end(), {s[0], channels});
  Value* sum = ops::index_put(g, ops::full(g, r.dtype(), 0, target), ops::transpose(g, x, perm),
                              places, put_axes, "add");
  for (std::size_t d = 0; d < axes; ++d)
    sum = ops::slice(g, sum, static_cast<std::int64_t>(d), pads[d], image[d]);
  Ints back{static_cast<std::int64_t>(axes), static_cast<std::int64_t>(axes) + 1};
  for (std::size_t d = 0; d < axes; ++d) back.push_back(static_cast<std::int64_t>(d));
  return r.one(ops::transpose(g, sum, back));
}

// A depthwise causal convolution along time that continues from a state of the last inputs.
Items causal_conv(Row& r) {
  Graph& g = r.g;
  Expr x = expr(r, 0), w = expr(r, 1);  // [batch, channels, time], [channels, 1, taps]
  const Dim taps = w.shape().back();
  Shape past{x.shape()[0], x.shape()[1], taps - 1};
  Expr state(g, r.has(3) ? r.in(3) : ops::full(g, x.dtype(), 0, past));
  Expr all(g, ops::cat(g, {state.v, x.v}, 2));
  WindowSpec spec{{taps.constant()}, {1}, {1}, {Dim(0)}, {Dim(0)}, {}, {}};
  Expr y(g, convolve(r, all, w, spec, x.shape()[1].constant()));
  y = with_bias(y, r.in_or_null(2));
  const std::string activation = r.string_attr("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = y * sigmoid(y);
  else if (activation != "none" && !activation.empty())
    r.refuse("activation " + activation);
  Expr next = slice(all, 2, all.shape()[2] - (taps - 1), taps - 1);
  return {Item::tensor(y, r.elem()), Item::tensor(next, r.elem())};
}

}  // namespace

void add_conv_rows() {
  add_row("Conv", conv);
  add_row("ConvTranspose", conv_transpose);
  add_row("Col2Im", col2im);
  add_row("CausalConvWithState", causal_conv);
}

}  // namespace gex::onnx
