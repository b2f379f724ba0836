// Attention, FlexAttention, LinearAttention and RotaryEmbedding.

#include <cmath>

#include "frontend/onnx/attention.hpp"
#include "frontend/onnx/expr.hpp"

namespace gex::onnx {

// [batch, time, heads*size] as [batch, heads, time, size].
Value* split_heads(Graph& g, Value* x, std::int64_t heads) {
  const Shape s = x->type().shape;
  if (s.size() == 4) return x;
  Value* apart = ops::reshape(g, x, {s[0], s[1], Dim(heads), floordiv(s[2], heads)});
  return ops::transpose(g, apart, {0, 2, 1, 3});
}

Value* join_heads(Graph& g, Value* x) {
  const Shape s = x->type().shape;
  return ops::reshape(g, ops::transpose(g, x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

// Key head k serves query heads k*n .. k*n + n-1.
Value* repeat_heads(Graph& g, Value* x, Dim heads) {
  const Shape s = x->type().shape;
  if (s[1] == heads) return x;
  const Dim each = floordiv(heads, s[1]);
  Value* apart = ops::expand(g, ops::unsqueeze(g, x, 2), {s[0], s[1], each, s[2], s[3]});
  return ops::reshape(g, apart, {s[0], heads, s[2], s[3]});
}

Value* rotated(const Row& r, const Rotary& a) {
  Graph& g = r.g;
  Expr x(g, a.x);  // [batch, heads, time, size]
  const Shape s = x.shape();
  const Dim turned = a.size > 0 ? Dim(a.size) : s[3];
  const Dim half = floordiv(turned, 2);
  Expr cos(g, a.cos), sin(g, a.sin);
  if (a.positions != nullptr) {
    Expr at = Expr(g, a.positions).to(DType::i64);
    cos = take(cos, at, 0);
    sin = take(sin, at, 0);
  }
  if (cos.rank() == 2) {  // the same for each batch
    cos = unsqueeze(cos, 0);
    sin = unsqueeze(sin, 0);
  }
  cos = slice(unsqueeze(cos, 1), 3, 0, half).to(x.dtype());
  sin = slice(unsqueeze(sin, 1), 3, 0, half).to(x.dtype());
  Expr part = slice(x, 3, 0, turned);
  Expr y = part;
  if (a.interleaved) {
    Expr pairs = reshape(part, {s[0], s[1], s[2], half, Dim(2)});
    Expr x1 = select(pairs, 4, 0), x2 = select(pairs, 4, 1);
    Expr real = cos * x1 - sin * x2, imaginary = sin * x1 + cos * x2;
    y = reshape(Expr(g, ops::cat(g, {unsqueeze(real, 4).v, unsqueeze(imaginary, 4).v}, 4)),
                part.shape());
  } else {
    Expr x1 = slice(part, 3, 0, half), x2 = slice(part, 3, half, half);
    Expr real = cos * x1 - sin * x2, imaginary = sin * x1 + cos * x2;
    y = {g, ops::cat(g, {real.v, imaginary.v}, 3)};
  }
  if (turned == s[3]) return y;
  return ops::cat(g, {y.v, slice(x, 3, turned, s[3] - turned).v}, 3);
}

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Items rotary(Row& r) {
  const bool flat = r.rank() == 3;
  Rotary a;
  Value* x = wide(r, 0);
  a.x = flat ? split_heads(r.g, x, r.int_attr("num_heads", 1)) : x;
  a.cos = wide(r, 1);
  a.sin = wide(r, 2);
  a.positions = r.in_or_null(3);
  a.interleaved = r.int_attr("interleaved", 0) != 0;
  a.size = r.int_attr("rotary_embedding_dim", 0);
  Expr y(r.g, rotated(r, a));
  return r.one(Expr(r.g, flat ? join_heads(r.g, y) : y.v).to(r.dtype()));
}

struct AttentionCase {
  Expr q, k, v;  // [batch, heads, time, size]
};

// Which keys a query may see: bool, broadcast to [batch, heads, queries, keys]; absent: all.
std::optional<Expr> allowed_places(Row& r, const AttentionCase& a, Dim past) {
  Graph& g = r.g;
  const Dim queries = a.q.shape()[2], keys = a.k.shape()[2];
  const std::int64_t left = r.int_attr("left_window_size", -1);
  const std::int64_t right = r.int_attr("right_window_size", -1);
  const bool causal = r.int_attr("is_causal", 0) != 0;
  std::optional<Expr> allowed;
  const auto also = [&](Expr condition) { allowed = allowed ? *allowed & condition : condition; };
  Expr key = reshape(iota(g, keys), {Dim(1), Dim(1), Dim(1), keys});
  if (causal || left >= 0 || right >= 0) {
    Expr place = reshape(iota(g, queries), {Dim(1), Dim(1), queries, Dim(1)});
    if (r.has(6))
      place = place + (reshape(expr(r, 6), {a.q.shape()[0], Dim(1), Dim(1), Dim(1)}) -
                       Expr(g, ops::dim_value(g, queries)));
    else
      place = place + Expr(g, ops::dim_value(g, past));
    if (causal) also(key <= place);
    if (left >= 0) also(place - key <= static_cast<double>(left));
    if (right >= 0) also(key - place <= static_cast<double>(right));
  }
  if (r.has(6)) also(key < reshape(expr(r, 6), {a.q.shape()[0], Dim(1), Dim(1), Dim(1)}));
  return allowed;
}

// The mask input with four axes, padded to the number of keys; padded keys are hidden.
Expr mask_of(Row& r, Dim keys) {
  Expr mask = expr(r, 3);
  while (mask.rank() < 4) mask = unsqueeze(mask, 0);
  const Dim missing = keys - mask.shape()[3];
  if (missing == Dim(0)) return mask;
  Dims low(4), high(4);
  high[3] = missing;
  const double fill = mask.dtype() == DType::boolean ? 0 : -kInf;
  return {r.g, ops::pad(r.g, mask, low, high, fill)};
}

// The operator's definition step by step, each rounded to the input type. Also returns the scores
// at the requested stage.
struct Composed {
  Value* result;
  Value* scores = nullptr;
};
Composed composed(Row& r, const AttentionCase& a, std::optional<Expr> allowed,
                  std::optional<Expr> bias, double scale) {
  Graph& g = r.g;
  const DType t = r.dtype(), w = compute_type(t);
  const double cap = r.float_attr("softcap", 0);
  const std::int64_t mode = r.int_attr("qk_matmul_output_mode", 0);
  Composed out{};
  const auto rounded = [&](Expr x) { return x.to(t).to(w); };
  const auto stage = [&](std::int64_t which, Expr x) {
    if (mode == which) out.scores = x.to(t);
  };
  Expr k(g, repeat_heads(g, a.k, a.q.shape()[1])), v(g, repeat_heads(g, a.v, a.q.shape()[1]));
  Expr factor = Expr(g, ops::scalar(g, t, std::sqrt(scale))).to(w);
  Expr left = rounded(a.q.to(w) * factor), right = rounded(k.to(w) * factor);
  Expr scores = rounded(matmul(left, transpose(right, {0, 1, 3, 2})));
  stage(0, scores);
  if (cap > 0) scores = rounded(rounded(tanh(rounded(scores / cap))) * cap);
  stage(1, scores);
  if (bias) scores = rounded(scores + bias->to(w));
  if (allowed) scores = where(*allowed, scores, scores.number(-kInf));
  stage(2, scores);
  if (static_cast<Elem>(r.int_attr("softmax_precision", 0)) == Elem::f64)
    scores = scores.to(DType::f64);
  // A query without visible keys gives zeros.
  Expr top(g, ops::reduce_max(g, scores, {3}, true));
  Expr blind = top == -kInf;
  Expr e = exp(scores - where(blind, top.number(0), top));
  Expr total = sum(e, {3}, true);
  Expr weights = where(blind, e.number(0), e / where(blind, total.number(1), total));
  stage(3, weights);
  out.result = matmul(weights.to(t).to(w), v.to(w)).to(t);
  return out;
}

// With the engine's own op.
Value* fused(Row& r, const AttentionCase& a, std::optional<Expr> allowed, std::optional<Expr> bias,
             double scale) {
  Value* mask = nullptr;
  if (bias && allowed)
    mask = where(*allowed, *bias, bias->number(-kInf));
  else if (bias || allowed)
    mask = bias ? bias->v : allowed->v;
  const Shape& q = a.q.shape();
  if (mask != nullptr) mask = ops::expand(r.g, mask, {q[0], q[1], q[2], a.k.shape()[2]});
  ops::Attention attrs;
  attrs.scale = scale;
  return ops::attention(r.g, a.q, a.k, a.v, mask, attrs);
}

double scale_of(const Row& r, const AttentionCase& a) {
  if (r.has_attr("scale")) return r.float_attr("scale", 1);
  const auto size = a.q.shape()[3].as_const();
  if (!size) r.refuse("the size of the heads is not known");
  return 1 / std::sqrt(static_cast<double>(*size));
}

Items attention(Row& r) {
  Graph& g = r.g;
  const bool flat = r.rank() == 3;
  AttentionCase a{{g, split_heads(g, r.in(0), r.int_attr("q_num_heads", 1))},
                  {g, split_heads(g, r.in(1), r.int_attr("kv_num_heads", 1))},
                  {g, split_heads(g, r.in(2), r.int_attr("kv_num_heads", 1))}};
  Dim past(0);
  if (r.has(4)) {
    past = r.shape(4)[2];
    a.k = {g, ops::cat(g, {r.in(4), a.k.v}, 2)};
    a.v = {g, ops::cat(g, {r.in(5), a.v.v}, 2)};
  }
  const double scale = scale_of(r, a);
  std::optional<Expr> allowed = allowed_places(r, a, past), bias;
  if (r.has(3)) {
    Expr mask = mask_of(r, a.k.shape()[2]);
    if (mask.dtype() == DType::boolean)
      allowed = allowed ? *allowed & mask : mask;
    else
      bias = mask;
  }
  const bool plain = r.float_attr("softcap", 0) == 0 && !r.wants(3) && r.dtype() == DType::f32;
  Composed out{};
  if (plain && a.k.shape()[3] == a.v.shape()[3])
    out.result = fused(r, a, allowed, bias, scale);
  else
    out = composed(r, a, allowed, bias, scale);
  Items items = r.one(flat ? join_heads(g, out.result) : out.result);
  items.push_back(Item::tensor(a.k, r.elem(1)));
  items.push_back(Item::tensor(a.v, r.elem(2)));
  if (out.scores != nullptr) items.push_back(Item::tensor(out.scores, r.elem()));
  return items;
}

Items flex_attention(Row& r) {
  Graph& g = r.g;
  const DType t = r.dtype();
  Expr q = expr(r, 0), k = expr(r, 1), v = expr(r, 2);
  const auto size = q.shape()[3].as_const();
  if (!size) r.refuse("the size of the heads is not known");
  const double scale = r.float_attr("scale", 1 / std::sqrt(static_cast<double>(*size)));
  const DType w = compute_type(t);
  Elem elem = r.elem() == Elem::f64 ? Elem::f64 : Elem::f32;
  if (r.has_attr("softmax_precision")) elem = static_cast<Elem>(r.int_attr("softmax_precision", 1));
  const DType p = storage_dtype(elem);
  k = {g, repeat_heads(g, k, q.shape()[1])};
  v = {g, repeat_heads(g, v, q.shape()[1])};
  Expr factor = Expr(g, ops::scalar(g, t, std::sqrt(scale))).to(w);
  Expr left = (q.to(w) * factor).to(t).to(w), right = (k.to(w) * factor).to(t).to(w);
  Expr scores = matmul(left, transpose(right, {0, 1, 3, 2})).to(t).to(p);
  const auto modified = [&](const char* name, Expr x) {
    if (!r.has_attr(name)) return x;
    const Items out = r.state.import_subgraph(r.graph_attr(name), {Item::tensor(x, elem)});
    return Expr(g, out.at(0).value).to(p);
  };
  scores = modified("score_mod", scores);
  Expr weights = modified("prob_mod", Expr(g, ops::softmax(g, scores, 3)));
  return r.one(matmul(weights, v.to(p)).to(t));
}

// State [batch, heads, keys, values], one time step after another.
Items linear_attention(Row& r) {
  Graph& g = r.g;
  const std::int64_t heads = r.int_attr("q_num_heads", 1), kv_heads = r.int_attr("kv_num_heads", 1);
  const std::string rule = r.string_attr("update_rule", "gated_delta");
  const bool delta = rule == "delta" || rule == "gated_delta";
  Expr q = Expr(g, split_heads(g, r.in(0), heads)).to(DType::f32);
  Expr k = Expr(g, split_heads(g, r.in(1), kv_heads)).to(DType::f32);
  Expr v = Expr(g, split_heads(g, r.in(2), kv_heads)).to(DType::f32);
  const Shape s = k.shape();
  const auto time = s[2].as_const(), key_size = s[3].as_const();
  if (!time || !key_size) r.refuse("the length of the sequence is not known at import");
  double scale = r.float_attr("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(*key_size));
  const Shape state_shape{s[0], s[1], s[3], v.shape()[3]};
  const Elem state_elem = r.has(3) ? r.elem(3) : r.elem();
  Expr state(g, r.has(3) ? expr(r, 3).to(DType::f32).v : ops::full(g, DType::f32, 0, state_shape));
  const auto by_head = [&](std::size_t i) {  // [batch, heads or 1, time, size]
    Expr x = expr(r, i).to(DType::f32);
    const auto width = x.shape()[2].as_const().value_or(0);
    return Expr(g, split_heads(g, x, width >= kv_heads ? kv_heads : 1));
  };
  std::vector<Value*> outputs;
  for (std::int64_t i = 0; i < *time; ++i) {
    const auto at = [&](Expr x) { return select(x, 2, i); };
    Expr key = unsqueeze(at(k), 3), value = unsqueeze(at(v), 2);
    if (r.has(4)) state = state * exp(unsqueeze(at(by_head(4)), 3));
    if (delta) {
      Expr retrieved = matmul(transpose(key, {0, 1, 3, 2}), state);
      value = unsqueeze(at(by_head(5)), 3) * (value - retrieved);
    }
    state = state + key * value;
    Expr read(g, repeat_heads(g, state, heads));
    outputs.push_back(matmul(unsqueeze(at(q), 2), read) * scale);
  }
  Expr y(g, outputs.size() == 1 ? outputs[0] : ops::cat(g, outputs, 2));
  return {Item::tensor(Expr(g, join_heads(g, y)).to(r.dtype()), r.elem()),
          Item::tensor(state.to(storage_dtype(state_elem)), state_elem)};
}

}  // namespace

void add_attention_rows() {
  add_row("Attention", attention);
  add_row("ai.onnx.preview", "FlexAttention", flex_attention);
  add_row("LinearAttention", linear_attention);
  add_row("RotaryEmbedding", rotary);
}

}  // namespace gex::onnx
