// com.microsoft: operators of optimised and quantised models.

#include <cmath>
#include <optional>

#include "frontend/onnx/attention.hpp"
#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/matmul.hpp"
#include "frontend/onnx/quant.hpp"
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
  Expr y = normed(all, centre, r.float_attr("epsilon", centre ? 1e-12f : 1e-5f)) * expr(r, 2).to(w);
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

// --- attention
// --------------------------------------------------------------------------------------

struct Heads {
  Expr q, k, v;
};

Value* attend(Row& r, const Heads& h, Value* mask, double scale) {
  ops::Attention attrs;
  const double size = static_cast<double>(h.q.shape()[3].as_const().value_or(1));
  attrs.scale = scale != 0 ? scale : 1 / std::sqrt(size);
  if (mask != nullptr)
    mask = ops::expand(r.g, mask, {h.q.shape()[0], h.q.shape()[1], h.q.shape()[2], h.k.shape()[2]});
  return join_heads(r.g, ops::attention(r.g, h.q, h.k, h.v, mask, attrs));
}

// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value
Items multi_head(Row& r) {
  Graph& g = r.g;
  const std::int64_t heads = r.int_attr("num_heads", 1);
  if (!r.has(1) || !r.has(2) || r.rank(1) == 5) r.refuse("packed queries, keys and values");
  if (r.has(4)) r.refuse("key_padding_mask is not supported");
  Expr q = expr(r, 0), k = expr(r, 1), v = expr(r, 2);
  if (r.has(3)) {
    Expr bias = expr(r, 3);
    const Dim n = q.shape()[2], m = v.shape().back();
    q = q + slice(bias, 0, 0, n);
    if (k.rank() == 3) k = k + slice(bias, 0, n, n);
    if (v.rank() == 3) v = v + slice(bias, 0, n * Dim(2), m);
  }
  Heads h{
      {g, split_heads(g, q, heads)}, {g, split_heads(g, k, heads)}, {g, split_heads(g, v, heads)}};
  if (r.has(6)) {
    h.k = {g, ops::cat(g, {r.in(6), h.k.v}, 2)};
    h.v = {g, ops::cat(g, {r.in(7), h.v.v}, 2)};
  }
  Value* mask = r.in_or_null(5);
  if (r.int_attr("unidirectional", 0) != 0) r.refuse("unidirectional is not supported");
  return {Item::tensor(attend(r, h, mask, r.float_attr("scale", 0)), r.elem()),
          Item::tensor(h.k, r.elem()), Item::tensor(h.v, r.elem())};
}

// query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos, sin
Items group_query(Row& r) {
  Graph& g = r.g;
  const std::int64_t heads = r.int_attr("num_heads", 1), kv_heads = r.int_attr("kv_num_heads", 1);
  if (r.float_attr("softcap", 0) != 0) r.refuse("softcap is not supported");
  Expr q = expr(r, 0);
  std::optional<Expr> k, v;
  if (r.has(1)) {
    k = expr(r, 1);
    v = expr(r, 2);
  } else {  // packed
    const auto width = q.shape()[2].as_const();
    if (!width) r.refuse("the size of the packed queries is not known");
    const std::int64_t size = *width / (heads + 2 * kv_heads);
    Expr packed = q;
    q = slice(packed, 2, 0, heads * size);
    k = slice(packed, 2, heads * size, kv_heads * size);
    v = slice(packed, 2, (heads + kv_heads) * size, kv_heads * size);
  }
  Heads h{{g, split_heads(g, q, heads)},
          {g, split_heads(g, *k, kv_heads)},
          {g, split_heads(g, *v, kv_heads)}};
  const Dim batch = h.q.shape()[0], time = h.q.shape()[2];
  // seqlens_k is the last valid position of each batch entry: queries end there.
  Expr last = reshape(expr(r, 5).to(DType::i64), {batch, Dim(1), Dim(1), Dim(1)});
  Expr offset = iota(g, time) - Expr(g, ops::dim_value(g, time - 1));
  Expr place = last + reshape(offset, {Dim(1), Dim(1), time, Dim(1)});
  if (r.int_attr("do_rotary", 0) != 0) {
    Expr positions = max(reshape(place, {batch, time}), 0);
    for (Expr* x : {&h.q, &h.k}) {
      Rotary a{x->v, r.in(7), r.in(8), positions, r.int_attr("rotary_interleaved", 0) != 0, 0};
      const auto half = r.shape(7)[1].as_const();
      a.size = half ? 2 * *half : 0;
      *x = {g, rotated(r, a)};
    }
  }
  if (r.has(3)) {
    h.k = {g, ops::cat(g, {r.in(3), h.k.v}, 2)};
    h.v = {g, ops::cat(g, {r.in(4), h.v.v}, 2)};
  }
  const Dim keys = h.k.shape()[2];
  Expr key = reshape(iota(g, keys), {Dim(1), Dim(1), Dim(1), keys});
  Expr seen = key <= place;
  const std::int64_t window = r.int_attr("local_window_size", -1);
  if (window > 0) seen = seen & (place - key < static_cast<double>(window));
  return {Item::tensor(attend(r, h, seen, r.float_attr("scale", 0)), r.elem()),
          Item::tensor(h.k, r.elem()), Item::tensor(h.v, r.elem())};
}

Items microsoft_rotary(Row& r) {  // input, position_ids, cos, sin
  const bool flat = r.rank() == 3;
  Graph& g = r.g;
  std::int64_t heads = r.int_attr("num_heads", 0);
  if (flat && heads == 0) {
    const auto width = r.shape()[2].as_const(), half = r.shape(2)[1].as_const();
    if (!width || !half) r.refuse("the number of heads is not known");
    heads = *width / (2 * *half);
  }
  Rotary a;
  a.x = flat ? split_heads(g, r.in(0), heads) : r.in(0);
  a.cos = r.in(2);
  a.sin = r.in(3);
  Expr positions = expr(r, 1);
  const Dim batch = a.x->type().shape[0], time = a.x->type().shape[2];
  if (positions.rank() == 1) {  // position of the first element
    positions =
        expand(reshape(positions, {Dim(1), Dim(1)}) + unsqueeze(iota(g, time), 0), {batch, time});
  }
  a.positions = positions;
  a.interleaved = r.int_attr("interleaved", 0) != 0;
  a.size = r.int_attr("rotary_embedding_dim", 0);
  Value* y = rotated(r, a);
  return r.one(flat ? join_heads(g, y) : y);
}

// --- quantised
// ---------------------------------------------------------------------------------------

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
  add("MultiHeadAttention", multi_head);
  add("GroupQueryAttention", group_query);
  add("RotaryEmbedding", microsoft_rotary);
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
