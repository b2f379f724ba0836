// com.microsoft: operators of optimised and quantised models.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "frontend/onnx/activation.hpp"
#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/matmul.hpp"
#include "frontend/onnx/quant.hpp"
#include "frontend/onnx/windows.hpp"
#include "ops/core/integer_products.hpp"
#include "ops/core/quantised_products.hpp"

namespace gex::onnx {
namespace {

constexpr const char* kMicrosoft = "com.microsoft";

Expr normed(Expr x, bool centre, double eps) {
  const Ints last{x.rank() - 1};
  if (centre) x = x - mean(x, last, true);
  return x / sqrt(mean(x * x, last, true) + eps);
}

// input, skip, gamma, [beta,] bias -> output, -, -, sum
Items skip_norm(Row& r, bool centre) {
  Expr x = wide(r, 0);
  const DType w = x.dtype();
  Expr all = x + wide(r, 1);
  const std::size_t bias_at = centre ? 4 : 3;
  if (r.has(bias_at)) all = all + expr(r, bias_at).to(w);
  Expr y = normed(all, centre, r.float_attr("epsilon", 1e-12f)) * expr(r, 2).to(w);
  if (centre && r.has(3)) y = y + expr(r, 3).to(w);
  return {Item::tensor(y.to(r.dtype()), r.elem()), Item{}, Item{},
          Item::tensor(all.to(r.dtype()), r.elem())};
}

Items simplified_norm(Row& r) {
  Expr x = wide(r, 0);
  if (r.axis_attr("axis", -1, r.rank()) != r.rank() - 1)
    r.refuse("only the last axis is supported");
  Expr y = normed(x, false, r.float_attr("epsilon", 1e-5f));
  return r.one((y * expr(r, 1).to(x.dtype())).to(r.dtype()));
}

Expr gelu(Expr x) { return x * 0.5 * (unary("erf", x * std::sqrt(0.5)) + 1); }
Expr fast_gelu(Expr x) {
  return x * 0.5 * (tanh((x + x * x * x * 0.044715) * std::sqrt(2 / M_PI)) + 1);
}

Items with_activation(Row& r, Expr (*f)(Expr)) {
  Expr x = wide(r, 0);
  if (r.has(1)) x = x + wide(r, 1);
  return r.one(f(x).to(r.dtype()));
}

// The activation that the attribute names, in lower case.
Activation fused_activation(const Row& r) {
  std::string name = r.string_attr("activation", "");
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<double> numbers = r.floats_attr("activation_params");
  if (numbers.empty() && r.has_attr("activation_alpha"))
    numbers = {r.float_attr("activation_alpha", 0), r.float_attr("activation_beta", 0)};
  const double beta = name == "hardsigmoid" ? 0.5 : 0;
  return {name, !numbers.empty() ? numbers[0] : default_alpha(name),
          numbers.size() > 1 ? numbers[1] : beta};
}
Expr activated(const Row& r, Expr x) {
  const Activation f = fused_activation(r);
  if (f.name.empty()) return x;
  return f.name == "clip" ? min(max(x, f.alpha), f.beta) : f(x);
}

// x, weights, bias, summand
Items fused_conv(Row& r) {
  Expr y(r.g, convolution_with_bias(r));
  if (r.has(3)) y = y + expr(r, 3);
  return r.one(activated(r, y));
}

Items fused_gemm(Row& r) { return r.one(activated(r, Expr(r.g, general_product(r)))); }

Items fused_matmul(Row& r) {
  Expr a = expr(r, 0), b = expr(r, 1);
  if (r.int_attr("transBatchA", 0) != 0 || r.int_attr("transBatchB", 0) != 0)
    r.refuse("transBatchA and transBatchB are not supported");
  if (r.int_attr("transA", 0) != 0) a = {r.g, ops::swap_axes(r.g, a, -1, -2)};
  if (r.int_attr("transB", 0) != 0) b = {r.g, ops::swap_axes(r.g, b, -1, -2)};
  Expr y(r.g, matmul_any_rank(r.g, a, b));
  const double alpha = r.float_attr("alpha", 1);
  return r.one(alpha == 1 ? y : y * alpha);
}

// Weights of a few bits: b [n, blocks, bytes], one scale and zero point for each block of k.
Items matmul_bits(Row& r) {
  Graph& g = r.g;
  const std::int64_t bits = r.int_attr("bits", 4), block = r.int_attr("block_size", 32);
  const std::int64_t k = r.int_attr("K", 0), n = r.int_attr("N", 0);
  if (bits != 2 && bits != 4 && bits != 8) r.refuse(str(bits, " bits"));
  if (r.has(4)) r.refuse("g_idx is not supported");
  const std::int64_t blocks = (k + block - 1) / block, each = 8 / bits;
  const auto unpacked = [&](Expr bytes, std::int64_t count) {  // [n, ...] bytes to [n, count]
    Expr flat = reshape(bytes, {Dim(n), floordiv(product(bytes.shape()), n)}).to(DType::i32);
    std::vector<Value*> parts;
    for (std::int64_t p = 0; p < each; ++p) {
      Expr part = binary("shr", flat, flat.number(static_cast<double>(p * bits)));
      part = part & flat.number(static_cast<double>((1 << bits) - 1));
      parts.push_back(unsqueeze(part, 2));
    }
    Expr all(g, parts.size() == 1 ? parts[0] : ops::cat(g, parts, 2));
    return slice(reshape(all, {Dim(n), all.shape()[1] * Dim(each)}), 1, 0, count);
  };
  Expr scale = reshape(expr(r, 2), {Dim(n), Dim(blocks)});
  const double middle = 1 << (bits - 1);
  std::optional<Expr> zero;
  if (r.has(3)) {
    const bool is_real = gex::is_float(r.dtype(3));
    zero = is_real ? reshape(expr(r, 3), {Dim(n), Dim(blocks)}) : unpacked(expr(r, 3), blocks);
  }
  const DType t = r.dtype();
  const bool has_kernel = bits != 2 && r.rank() >= 2 && t != DType::f64;
  std::optional<Expr> y;
  if (has_kernel) {
    ops::QuantisedMatmul attrs{bits, blocks == 1 ? 0 : block, 0, true};
    std::optional<Expr> offset;
    if (zero)
      offset = zero->to(DType::f32) * scale.to(DType::f32) * -1.0;
    else
      attrs.zero = static_cast<std::int64_t>(middle);
    Expr q = slice(reshape(expr(r, 1), {Dim(n), Dim(blocks * block / each)}), 1, 0,
                   (k + each - 1) / each);
    y = Expr(g, ops::quantised_linear(g, r.in(0), q, scale, offset ? offset->v : nullptr, attrs));
  } else {
    Expr a = wide(r, 0);
    const Shape grouped{Dim(n), Dim(blocks), Dim(block)}, each_group{Dim(n), Dim(blocks), Dim(1)};
    Expr q = reshape(unpacked(expr(r, 1), blocks * block), grouped).to(a.dtype());
    Expr centred_q = zero ? q - reshape(zero->to(a.dtype()), each_group) : q - middle;
    Expr weights = reshape(centred_q * reshape(scale.to(a.dtype()), each_group),
                           {Dim(n), Dim(blocks * block)});
    y = matmul(a, transpose(slice(weights, 1, 0, k), {1, 0}));
  }
  if (r.has(5)) y = *y + expr(r, 5).to(y->dtype());
  return r.one(y->to(t));
}

Expr real_number(const Row& r, std::size_t x, std::size_t scale, std::size_t zero) {
  Expr s = expr(r, scale);
  if (s.rank() == 1 && s.shape()[0] == Dim(1)) s = reshape(s, {});
  return Expr(r.g, centred(r, x, zero, 0, DType::f32)) * s;
}

Items quantised_result(const Row& r, Expr y, std::size_t scale, std::size_t zero, Elem elem) {
  Expr s = expr(r, scale);
  if (s.rank() == 1) s = reshape(s, {});
  Value* z = r.has(zero) ? ops::reshape(r.g, r.in(zero), {}) : nullptr;
  return {Item::tensor(requantised(r, y / s, elem, z), elem)};
}

// a, a_scale, a_zero, b, b_scale, b_zero, c_scale, c_zero
Items qlinear_binary(Row& r, const char* op) {
  Expr y = binary(op, real_number(r, 0, 1, 2), real_number(r, 3, 4, 5));
  return quantised_result(r, y, 6, 7, r.elem());
}

// x, x_scale, x_zero, y_scale, y_zero
Items qlinear_unary(Row& r, const std::function<Expr(Row&, Expr)>& f) {
  return quantised_result(r, f(r, real_number(r, 0, 1, 2)), 3, 4, r.elem());
}

// Before opset 13 an axis stands for itself and all that follow.
Expr softmax_of(Row& r, Expr x) {
  const std::int64_t axis = normal_axis(r.int_attr("axis", -1), x.rank());
  if (r.int_attr("opset", 13) >= 13) return {x.g, ops::softmax(x.g, x, axis)};
  const Shape shape = x.shape();
  const auto middle = static_cast<std::size_t>(axis);
  const Expr flat = reshape(
      x, {product(std::span(shape).first(middle)), product(std::span(shape).subspan(middle))});
  return reshape(Expr(x.g, ops::softmax(x.g, flat, 1)), shape);
}

// condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero
Items qlinear_where(Row& r) {
  const Expr chosen = where(expr(r, 0), real_number(r, 1, 2, 3), real_number(r, 4, 5, 6));
  return quantised_result(r, chosen, 7, 8, r.elem(1));
}

Items qlinear_concat(Row& r) {  // y_scale, y_zero, then (x, scale, zero) for each part
  std::vector<Value*> parts;
  for (std::size_t i = 2; i < r.num_inputs(); i += 3)
    parts.push_back(real_number(r, i, i + 1, i + 2));
  if (parts.empty()) r.refuse("it has no parts");
  const std::int64_t axis = normal_axis(r.int_attr("axis", 0), parts[0]->type().rank());
  Expr y(r.g, parts.size() == 1 ? parts[0] : ops::cat(r.g, parts, axis));
  return quantised_result(r, y, 0, 1, r.elem(2));
}

// x, x_scale, x_zero, y_scale, y_zero
Items qlinear_average_pool(Row& r) {
  return qlinear_unary(r, [](Row& row, Expr x) {
    if (row.int_attr("channels_last", 0) != 0) row.refuse("channels_last is not supported");
    return Expr(x.g, averages_of_windows(row, x));
  });
}

// a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero
Items qgemm(Row& r) {
  Expr a(r.g, centred(r, 0, 2, 1, DType::f32)), b(r.g, centred(r, 3, 5, 1, DType::f32));
  if (r.int_attr("transA", 0) != 0) a = transpose(a, {1, 0});
  if (r.int_attr("transB", 0) != 0) b = transpose(b, {1, 0});
  Expr y = matmul(a, b);
  if (r.has(6)) y = y + expr(r, 6).to(DType::f32);
  y = y * (expr(r, 1) * expr(r, 4)) * r.float_attr("alpha", 1);
  if (!r.has(7)) return r.one(y, Elem::f32);
  return quantised_result(r, y, 7, 8, r.has(8) ? r.elem(8) : r.elem());
}

// a, b, a_scale, b_scale, a_zero, b_zero, bias
Items matmul_integer_to_float(Row& r) {
  Expr y(r.g, integer_product(r, 0, 4, 1, 5));
  y = y.to(DType::f32) * expr(r, 2) * expr(r, 3);
  if (r.has(6)) y = y + expr(r, 6);
  return r.one(y, Elem::f32);
}

// a, b, b_scale, b_zero, bias: a is quantised on the way.
Items dynamic_quantize_matmul(Row& r) {
  const DynamicQuantised x = quantised_by_range(r, r.in(0));
  Expr scale(r.g, x.scale), zero = Expr(r.g, x.zero).to(DType::i32);
  Value* weights_zero = r.has(3) ? ops::cast(r.g, r.in(3), DType::i32) : nullptr;
  Expr y(r.g, ops::centred_product(r.g, x.q, zero, r.in(1), weights_zero));
  y = y.to(DType::f32) * scale * expr(r, 2);
  if (r.has(4)) y = y + expr(r, 4);
  return r.one(y, Elem::f32);
}

}  // namespace

void add_microsoft_rows() {
  const auto add = [](const char* op, RowFunction row) { add_row(kMicrosoft, op, std::move(row)); };
  add("SkipLayerNormalization", [](Row& r) { return skip_norm(r, true); });
  add("SkipSimplifiedLayerNormalization", [](Row& r) { return skip_norm(r, false); });
  add_row("SimplifiedLayerNormalization", simplified_norm);
  add("SimplifiedLayerNormalization", simplified_norm);
  add("Gelu", [](Row& r) { return with_activation(r, gelu); });
  add("BiasGelu", [](Row& r) { return with_activation(r, gelu); });
  add("FastGelu", [](Row& r) { return with_activation(r, fast_gelu); });
  add("QuickGelu", [](Row& r) {
    Expr x = wide(r, 0);
    return r.one((x * sigmoid(x * r.float_attr("alpha", 1.702f))).to(r.dtype()));
  });
  add("FusedMatMul", fused_matmul);
  add("FusedConv", fused_conv);
  add("FusedGemm", fused_gemm);
  add("QLinearAveragePool", qlinear_average_pool);
  add("MatMulNBits", matmul_bits);
  add("QLinearAdd", [](Row& r) { return qlinear_binary(r, "add"); });
  add("QLinearMul", [](Row& r) { return qlinear_binary(r, "mul"); });
  add("QLinearSigmoid",
      [](Row& r) { return qlinear_unary(r, [](Row&, Expr x) { return sigmoid(x); }); });
  add("QLinearLeakyRelu", [](Row& r) {
    return qlinear_unary(
        r, [](Row& row, Expr x) { return where(x >= 0, x, x * row.float_attr("alpha", 0.01f)); });
  });
  add("QLinearGlobalAveragePool", [](Row& r) {
    return qlinear_unary(r, [](Row& row, Expr x) {
      if (row.int_attr("channels_last", 0) != 0) row.refuse("channels_last is not supported");
      Ints axes;
      for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
      return mean(x, axes, true);
    });
  });
  add("QLinearSoftmax", [](Row& r) { return qlinear_unary(r, softmax_of); });
  add("QLinearWhere", qlinear_where);
  add("QLinearConcat", qlinear_concat);
  add("QGemm", qgemm);
  add("MatMulIntegerToFloat", matmul_integer_to_float);
  add("DynamicQuantizeMatMul", dynamic_quantize_matmul);
}

}  // namespace gex::onnx
