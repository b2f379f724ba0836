// Quantised integers: QuantizeLinear, DequantizeLinear and operators on such integers.

#include <algorithm>
#include <cmath>

#include "frontend/onnx/cast.hpp"
#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/matmul.hpp"
#include "frontend/onnx/quant.hpp"
#include "frontend/onnx/windows.hpp"
#include "ops/core/integer_products.hpp"

namespace gex::onnx {

std::pair<double, double> range_of(Elem elem) {
  const int bits = bits_of(elem);
  if (is_unsigned(elem)) return {0, std::ldexp(1.0, bits) - 1};
  return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
}

namespace {

// A scale or zero point broadcast to x: one for all, one per element of an axis, or one per block
// of an axis.
Expr spread(const Row& r, Expr parameter, const Shape& x, std::int64_t axis, std::int64_t block) {
  if (parameter.rank() == 0) return parameter;
  if (parameter.rank() == 1 && parameter.shape()[0] == Dim(1) && block == 0)
    return reshape(parameter, {});
  const auto at = static_cast<std::size_t>(axis);
  if (block == 0 && parameter.rank() == 1) {
    Shape shape(x.size(), Dim(1));
    shape[at] = parameter.shape()[0];
    return reshape(parameter, shape);
  }
  if (parameter.rank() != static_cast<int>(x.size())) r.refuse("scales do not match the tensor");
  if (block == 0) return parameter;
  Shape apart = parameter.shape(), wide_shape;
  apart.insert(apart.begin() + axis + 1, Dim(1));
  wide_shape = apart;
  wide_shape[at + 1] = block;
  Shape joined = parameter.shape();
  joined[at] = joined[at] * Dim(block);
  Expr repeated = reshape(expand(reshape(parameter, apart), wide_shape), joined);
  return slice(repeated, axis, 0, x[at]);
}

Items quantize_linear(Row& r) {
  Graph& g = r.g;
  Elem elem = r.has(2) ? r.elem(2) : Elem::u8;
  if (!r.has(2) && r.int_attr("output_dtype", 0) != 0)
    elem = static_cast<Elem>(r.int_attr("output_dtype", 0));
  const std::int64_t axis =
      r.rank() > 0
          ? normal_axis(std::min<std::int64_t>(r.int_attr("axis", 1), r.rank() - 1), r.rank())
          : 0;
  const std::int64_t block = r.int_attr("block_size", 0);
  Expr x = wide(r, 0);
  if (!gex::is_float(x.dtype())) x = x.to(DType::f32);
  Expr scale(g, cast_elem(r, r.in(1), r.elem(1), x.dtype() == DType::f64 ? Elem::f64 : Elem::f32));
  Expr q = x / spread(r, scale, x.shape(), axis, block);
  if (is_small_float(elem)) {
    if (r.has(2)) {
      Expr zero(g, decode_small_float(g, r.in(2), elem));
      q = q + spread(r, zero.to(q.dtype()), x.shape(), axis, block);
    }
    return r.one(encode_small_float(g, q, elem, r.int_attr("saturate", 1) != 0, "up"), elem);
  }
  q = round(q);
  if (r.has(2)) q = q + spread(r, expr(r, 2).to(q.dtype()), x.shape(), axis, block);
  const auto [low, high] = range_of(elem);
  return r.one(min(max(q, low), high).to(storage_dtype(elem)), elem);
}

// Bytes with one scale, or one for each element of an axis: the op that products of integers are
// recognised by.
Value* dequantised_bytes(const Row& r, std::int64_t axis) {
  Graph& g = r.g;
  Value* scale = r.in(1);
  Value* zero = r.has(2) ? ops::cast(g, r.in(2), DType::i32) : nullptr;
  const bool single = scale->type().rank() == 0 || product(scale->type().shape) == Dim(1);
  const Shape shape = single ? Shape{} : scale->type().shape;
  scale = ops::reshape(g, scale, shape);
  zero = zero != nullptr ? ops::reshape(g, zero, shape) : ops::full(g, DType::i32, 0, shape);
  Node* node = g.add("dequantise", {r.in(0), scale, zero}, {{"axis", single ? -1 : axis}});
  return node->output();
}

Items dequantize_linear(Row& r) {
  Graph& g = r.g;
  const std::int64_t axis =
      r.rank() > 0
          ? normal_axis(std::min<std::int64_t>(r.int_attr("axis", 1), r.rank() - 1), r.rank())
          : 0;
  const std::int64_t block = r.int_attr("block_size", 0);
  Elem elem = r.elem(1);
  if (r.int_attr("output_dtype", 0) != 0) elem = static_cast<Elem>(r.int_attr("output_dtype", 0));
  if (ops::is_byte(r.dtype()) && (r.elem() == Elem::i8 || r.elem() == Elem::u8) && block == 0 &&
      r.rank(1) <= 1 && r.elem(1) == Elem::f32 && elem == Elem::f32)
    return r.one(dequantised_bytes(r, axis), elem);
  Expr scale(g, cast_elem(r, r.in(1), r.elem(1), r.elem(1) == Elem::f64 ? Elem::f64 : Elem::f32));
  const DType t = scale.dtype();
  const auto number = [&](std::size_t i) {
    if (is_small_float(r.elem(i))) return Expr(g, decode_small_float(g, r.in(i), r.elem(i))).to(t);
    return expr(r, i).to(r.elem(i) == Elem::i32 ? DType::i64 : r.dtype(i)).to(t);
  };
  Expr x = number(0);
  if (r.has(2)) x = x - spread(r, number(2), r.shape(), axis, block);
  Expr y = x * spread(r, scale, r.shape(), axis, block);
  return r.one(cast_elem(r, y, t == DType::f64 ? Elem::f64 : Elem::f32, elem), elem);
}

Items dynamic_quantize(Row& r) {
  const DynamicQuantised x = quantised_by_range(r, r.in(0));
  return {Item::tensor(x.q, Elem::u8), Item::tensor(x.scale, Elem::f32),
          Item::tensor(x.zero, Elem::u8)};
}

}  // namespace

DynamicQuantised quantised_by_range(const Row& r, Value* value) {
  Expr x(r.g, value);
  Ints all;
  for (int d = 0; d < x.rank(); ++d) all.push_back(d);
  Expr low = min(Expr(r.g, ops::reduce_min(r.g, x, all)), 0);
  Expr high = max(Expr(r.g, ops::reduce_max(r.g, x, all)), 0);
  // Zeros alone have no range.
  Expr range = high - low;
  Expr scale = where(range == 0, range.number(1), range / 255);
  Expr zero = round(min(max(0 - low / scale, 0), 255));
  Expr q = min(max(round(x / scale) + zero, 0), 255).to(DType::u8);
  return {q, scale, zero.to(DType::u8)};
}

Value* centred(const Row& r, std::size_t x, std::size_t zero, std::int64_t axis, DType t) {
  Expr value = expr(r, x).to(t);
  if (!r.has(zero)) return value;
  Expr z = expr(r, zero).to(t);
  if (z.rank() == 1 && z.shape()[0] == Dim(1)) z = reshape(z, {});
  if (z.rank() == 1) {
    Shape shape(value.shape().size(), Dim(1));
    shape[static_cast<std::size_t>(axis < 0 ? axis + value.rank() : axis)] = z.shape()[0];
    z = reshape(z, shape);
  }
  return value - z;
}

Value* requantised(const Row& r, Value* y, Elem elem, Value* zero) {
  Expr q = round(Expr(r.g, y));
  if (zero != nullptr) q = q + Expr(r.g, zero).to(q.dtype());
  const auto [low, high] = range_of(elem);
  return min(max(q, low), high).to(storage_dtype(elem));
}

namespace {

// Sums of products of 8-bit integers that stay below 2^24 are exact in f32.
DType exact_type(Dim terms) {
  const auto n = terms.as_const();
  return n && *n <= 256 ? DType::f32 : DType::f64;
}

DType exact_type(const Row& r, std::size_t weights, std::size_t zero, std::int64_t out_axis,
                 Dim terms) {
  if (exact_type(terms) == DType::f32) return DType::f32;
  const HostTensor* w = r.known(weights);
  const HostTensor* z = r.has(zero) ? r.known(zero) : nullptr;
  if (w == nullptr || (r.has(zero) && z == nullptr)) return DType::f64;
  // The largest possible sum of any output, for these weights.
  const auto& s = w->shape();
  const auto at = static_cast<std::size_t>(out_axis < 0 ? out_axis + r.rank(weights) : out_axis);
  std::int64_t inner = 1;
  for (std::size_t d = at + 1; d < s.size(); ++d) inner *= s[d];
  std::vector<double> sums(static_cast<std::size_t>(s[at]), 0);
  for (std::int64_t k = 0; k < w->numel(); ++k) {
    const std::int64_t channel = k / inner % s[at];
    const std::int64_t centre = z == nullptr ? 0 : z->get_int(z->numel() > 1 ? channel : 0);
    sums[static_cast<std::size_t>(channel)] +=
        static_cast<double>(std::abs(w->get_int(k) - centre));
  }
  const double largest = sums.empty() ? 0 : *std::ranges::max_element(sums);
  return largest * 255 < 16777216.0 ? DType::f32 : DType::f64;
}

bool all_are(const HostTensor* values, std::int64_t wanted) {
  if (values == nullptr) return false;
  for (std::int64_t k = 0; k < values->numel(); ++k)
    if (values->get_int(k) != wanted) return false;
  return true;
}

// A zero point in i32; null if it is absent or known to be 0. `column`: of rows.
Value* zero_point(const Row& r, std::size_t i, bool column) {
  if (!r.has(i) || all_are(r.known(i), 0)) return nullptr;
  Expr zero = expr(r, i).to(DType::i32);
  if (zero.rank() == 1 && zero.shape()[0] == Dim(1)) return reshape(zero, {});
  return column && zero.rank() == 1 ? unsqueeze(zero, 1) : zero;
}

// Weights as bytes without zero point, if that is possible.
Value* centred_bytes(const Row& r, std::size_t w, std::size_t zero) {
  if (zero_point(r, zero, false) == nullptr) return r.in(w);
  const bool shifted = r.dtype(w) == DType::u8 && all_are(r.known(zero), 128);
  return shifted ? ops::minus_128(r.g, r.in(w)) : nullptr;
}

}  // namespace

Value* integer_product(Row& r, std::size_t a, std::size_t a_zero, std::size_t b,
                       std::size_t b_zero) {
  const bool bytes = ops::is_byte(r.dtype(a)) && ops::is_byte(r.dtype(b));
  if (bytes && r.rank(a) >= 2 && r.rank(b) >= 2 && (!r.has(b_zero) || r.rank(b_zero) <= 1)) {
    Value* weights = centred_bytes(r, b, b_zero);
    Value* zero = weights == nullptr ? zero_point(r, b_zero, false) : nullptr;
    return ops::centred_product(r.g, r.in(a), zero_point(r, a_zero, true),
                                weights == nullptr ? r.in(b) : weights, zero);
  }
  const DType t = exact_type(r, b, b_zero, -1, r.shape(a).back());
  return matmul_any_rank(r.g, centred(r, a, a_zero, -2, t), centred(r, b, b_zero, -1, t));
}

namespace {

Items matmul_integer(Row& r) {
  return r.one(ops::cast(r.g, integer_product(r, 0, 2, 1, 3), DType::i32), Elem::i32);
}

Expr scalar_of(const Row& r, std::size_t i, std::size_t rank, std::int64_t axis) {
  Expr s = expr(r, i).to(DType::f32);
  if (s.rank() == 1 && s.shape()[0] == Dim(1)) return reshape(s, {});
  if (s.rank() == 1) {
    Shape shape(rank, Dim(1));
    shape[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis)] =
        s.shape()[0];
    return reshape(s, shape);
  }
  return s;
}

// a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero
Items qlinear_matmul(Row& r) {
  Expr product(r.g, integer_product(r, 0, 2, 3, 5));
  product = product.to(DType::f32);
  const auto rank = product.shape().size();
  Expr scale = scalar_of(r, 1, rank, -2) * scalar_of(r, 4, rank, -1) / scalar_of(r, 6, rank, -1);
  return r.one(requantised(r, product * scale, r.elem(7), r.in(7)), r.elem(7));
}

bool are_constant(const Dims& pads) {
  return std::ranges::all_of(pads, [](Dim d) { return d.is_const() && d.constant() >= 0; });
}
Ints constants(const Dims& dims) {
  Ints values;
  for (const Dim d : dims) values.push_back(d.constant());
  return values;
}

// x with pads of this value.
Value* padded_with(const Row& r, Value* x, const WindowSpec& spec, Expr fill) {
  Graph& g = r.g;
  Expr y(g, ops::pad(g, x, for_all_axes(spec.low), for_all_axes(spec.high), 0));
  for (std::size_t d = 0; d < spec.low.size(); ++d) {
    if (spec.low[d] == Dim(0) && spec.high[d] == Dim(0)) continue;
    Shape along(y.shape().size(), Dim(1));
    along[d + 2] = y.shape()[d + 2];
    Expr place = reshape(iota(g, along[d + 2]), along);
    Expr first(g, ops::dim_value(g, spec.low[d]));
    Expr end(g, ops::dim_value(g, spec.low[d] + x->type().shape[d + 2]));
    y = where((place >= first) & (place < end), y, fill);
  }
  return y;
}

// The image of a convolution of bytes, with its attributes and the zero point if that is known at
// run time alone.
struct ByteImage {
  Value* x;
  Value* zero = nullptr;
  ops::IntegerConv attrs = {};
};
ByteImage byte_image(const Row& r, std::size_t x_zero, const WindowSpec& spec) {
  ByteImage image{r.in(0)};
  image.attrs.groups = r.int_attr("group", 1);
  image.attrs.stride = spec.stride;
  image.attrs.dilation = spec.dilation;
  const HostTensor* zero = r.has(x_zero) ? r.known(x_zero) : nullptr;
  if (r.has(x_zero) && zero == nullptr) {
    Expr number = reshape(expr(r, x_zero), {});
    image.x = padded_with(r, image.x, spec, number);
    image.zero = number.to(DType::i32);
    image.attrs.low = image.attrs.high = Ints(spec.low.size(), 0);
    return image;
  }
  image.attrs.border = zero == nullptr ? 0 : zero->get_int(0);
  image.attrs.low = image.attrs.high = Ints(spec.low.size(), 0);
  if (are_constant(spec.low) && are_constant(spec.high)) {
    image.attrs.low = constants(spec.low);
    image.attrs.high = constants(spec.high);
  } else {
    image.x = ops::pad(r.g, image.x, for_all_axes(spec.low), for_all_axes(spec.high),
                       static_cast<double>(image.attrs.border));
  }
  return image;
}

// Null if it has to be computed in floats.
Value* conv_of_bytes(Row& r, std::size_t x_zero, std::size_t w, std::size_t w_zero,
                     const WindowSpec& spec) {
  const std::size_t axes = spec.kernel.size();
  if (!ops::is_byte(r.dtype()) || !ops::is_byte(r.dtype(w)) || axes > 2 || axes == 0)
    return nullptr;
  if (r.has(x_zero) && !(product(r.shape(x_zero)) == Dim(1))) return nullptr;
  Value* weight = centred_bytes(r, w, w_zero);
  Value* weight_zero = weight == nullptr ? zero_point(r, w_zero, false) : nullptr;
  if (weight == nullptr) weight = r.in(w);
  ByteImage image = byte_image(r, x_zero, spec);
  ops::IntegerConv& attrs = image.attrs;
  if (axes == 2)
    return ops::centred_convolution(r.g, image.x, weight, attrs, image.zero, weight_zero);
  for (Ints* of_one_axis : {&attrs.stride, &attrs.dilation})
    of_one_axis->insert(of_one_axis->begin(), 1);
  for (Ints* of_one_axis : {&attrs.low, &attrs.high}) of_one_axis->insert(of_one_axis->begin(), 0);
  Value* y =
      ops::centred_convolution(r.g, ops::unsqueeze(r.g, image.x, 2), ops::unsqueeze(r.g, weight, 2),
                               attrs, image.zero, weight_zero);
  return ops::squeeze(r.g, y, 2);
}

Value* integer_conv(Row& r, std::size_t x_zero, std::size_t w, std::size_t w_zero) {
  const Ints kernel = kernel_of(r, r.in(w));
  Dim terms(1);
  for (std::size_t d = 1; d < r.shape(w).size(); ++d) terms *= r.shape(w)[d];
  const WindowSpec spec = window_spec(r, kernel, spatial_of(r.in(0)), false);
  if (Value* y = conv_of_bytes(r, x_zero, w, w_zero, spec)) return y;
  const DType t = exact_type(r, w, w_zero, 0, terms);
  return convolve(r, centred(r, 0, x_zero, 1, t), centred(r, w, w_zero, 0, t), spec,
                  r.int_attr("group", 1));
}

Items conv_integer(Row& r) {
  return r.one(ops::cast(r.g, integer_conv(r, 2, 1, 3), DType::i32), Elem::i32);
}

// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias
Items qlinear_conv(Row& r) {
  Expr y(r.g, integer_conv(r, 2, 3, 5));
  const auto rank = y.shape().size();
  if (r.has(8)) {
    Shape shape(rank, Dim(1));
    shape[1] = r.shape(8)[0];
    y = y + reshape(expr(r, 8).to(y.dtype()), shape);
  }
  y = y.to(DType::f32);
  Expr scale = scalar_of(r, 1, rank, 1) * scalar_of(r, 4, rank, 1) / scalar_of(r, 6, rank, 1);
  return r.one(requantised(r, y * scale, r.elem(7), r.in(7)), r.elem(7));
}

}  // namespace

void add_quant_rows() {
  for (const char* domain : {"", "com.microsoft"}) {
    add_row(domain, "QuantizeLinear", quantize_linear);
    add_row(domain, "DequantizeLinear", dequantize_linear);
  }
  add_row("DynamicQuantizeLinear", dynamic_quantize);
  add_row("MatMulInteger", matmul_integer);
  add_row("ConvInteger", conv_integer);
  add_row("QLinearMatMul", qlinear_matmul);
  add_row("QLinearConv", qlinear_conv);
}

}  // namespace gex::onnx
