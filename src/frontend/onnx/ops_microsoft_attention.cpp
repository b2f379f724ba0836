// com.microsoft: attention and rotary embedding of optimised transformers.

#include <cmath>
#include <optional>

#include "frontend/onnx/attention.hpp"
#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/matmul.hpp"

namespace gex::onnx {
namespace {

// [batch, heads, time, size]
struct Heads {
  Expr q, k, v;

  Dim batch() const { return q.shape()[0]; }
  Dim queries() const { return q.shape()[2]; }
  Dim keys() const { return k.shape()[2]; }
};

double scale_of(const Row& r, const Heads& h) {
  const double scale = r.float_attr("scale", 0);
  if (scale != 0) return scale;
  const auto size = h.q.shape()[3].as_const();
  if (!size) r.refuse("the size of the heads is not known");
  return 1 / std::sqrt(static_cast<double>(*size));
}

// `mask`: bool, or numbers that are added to the scores.
Value* attend(const Row& r, const Heads& h, std::optional<Expr> mask) {
  ops::Attention attrs;
  attrs.scale = scale_of(r, h);
  Value* whole = nullptr;
  if (mask) whole = expand(*mask, {h.batch(), h.q.shape()[1], h.queries(), h.keys()});
  return join_heads(r.g, ops::attention(r.g, h.q, h.k, h.v, whole, attrs));
}

// The same with scores limited to cap * tanh(score / cap).
Value* attend_with_cap(const Row& r, const Heads& h, Expr seen, std::optional<Expr> bias,
                       double cap) {
  Graph& g = r.g;
  Expr k(g, repeat_heads(g, h.k, h.q.shape()[1])), v(g, repeat_heads(g, h.v, h.q.shape()[1]));
  Expr scores = matmul(h.q, transpose(k, {0, 1, 3, 2})).to(DType::f32) * scale_of(r, h);
  scores = tanh(scores / cap) * cap;
  if (bias) scores = scores + bias->to(DType::f32);
  scores = where(seen, scores, scores.number(-std::numeric_limits<double>::infinity()));
  Expr weights(g, ops::softmax(g, scores, 3));
  return join_heads(g, matmul(weights.to(h.v.dtype()), v));
}

// A row of numbers 0, 1, 2... along one of four axes.
Expr places(Graph& g, Dim size, std::size_t axis) {
  Shape shape(4, Dim(1));
  shape[axis] = size;
  return reshape(iota(g, size), shape);
}

// What masks and biases add to the scores.
class Bias {
 public:
  Bias(const Row& r, const Heads& h) : r_(r), h_(h) {}

  std::optional<Expr> total() const { return total_; }
  void add(Expr x) { total_ = total_ ? *total_ + x : x; }
  void hide_unless(Expr seen, double number) {
    Expr zero(r_.g, ops::scalar(r_.g, h_.q.dtype(), 0));
    add(where(seen, zero, zero.number(number)));
  }
  // A query sees as many keys as there are queries up to it, and those of the past.
  void add_causal(Dim past) {
    Graph& g = r_.g;
    Expr place = places(g, h_.queries(), 2) + Expr(g, ops::dim_value(g, past));
    const double lowest = h_.q.dtype() == DType::f16 ? -65504 : -3e38;
    hide_unless(places(g, h_.keys(), 3) <= place, lowest);
  }
  // Input i: numbers of keys, numbers and first keys, or a mask [batch, [queries,] keys].
  // Hidden keys get a number rather than -inf: a query without visible keys sees all alike.
  void add_padding(std::size_t i) {
    const double hidden = r_.float_attr("mask_filter_value", -10000);
    Expr mask = expr(r_, i).to(DType::i64);
    const Dim batch = h_.batch();
    Expr key = places(r_.g, h_.keys(), 3);
    const auto of_batch = [&](Dim from) {
      return reshape(slice(mask, 0, from, batch), {batch, Dim(1), Dim(1), Dim(1)});
    };
    if (mask.rank() == 1 && known_eq(mask.shape()[0], batch) == true)
      return hide_unless(key < of_batch(0), hidden);
    if (mask.rank() == 1 && known_eq(mask.shape()[0], batch * Dim(2)) == true)
      return hide_unless((key < of_batch(0)) & (key >= of_batch(batch)), hidden);
    if (mask.rank() != 2 && mask.rank() != 3)
      r_.refuse(str("a mask of ", mask.v->type(), " is not supported"));
    const Dim queries = mask.rank() == 2 ? Dim(1) : h_.queries();
    hide_unless(reshape(mask, {batch, Dim(1), queries, h_.keys()}) != 0, hidden);
  }

 private:
  const Row& r_;
  const Heads& h_;
  std::optional<Expr> total_;
};

void refuse_inputs(const Row& r, std::initializer_list<std::pair<std::size_t, const char*>> names) {
  for (const auto& [i, name] : names)
    if (r.has(i)) r.refuse(str(name, " is not supported"));
}

// Entry k of the axis before the last: [batch, time, heads, n, size] to [batch, time, heads*size].
Expr packed_part(Expr packed, std::int64_t k) {
  const Shape s = packed.shape();
  return reshape(slice(packed, 3, k, 1), {s[0], s[1], s[2] * s[4]});
}

// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value
Items multi_head(Row& r) {
  Graph& g = r.g;
  refuse_inputs(r, {{8, "past_sequence_length"}, {9, "cache_indirection"}});
  const std::int64_t heads = r.int_attr("num_heads", 1);
  Expr q = expr(r, 0), k = q, v = q;
  if (q.rank() == 5) {  // all three
    k = packed_part(q, 1);
    v = packed_part(q, 2);
    q = packed_part(q, 0);
  } else if (r.has(1) && r.rank(1) == 5) {
    k = packed_part(expr(r, 1), 0);
    v = packed_part(expr(r, 1), 1);
  } else {
    k = expr(r, 1);
    v = expr(r, 2);
  }
  if (r.has(3)) {
    Expr bias = expr(r, 3);
    const Dim n = q.shape()[2], m = bias.shape()[0] - n * Dim(2);
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
  Bias bias(r, h);
  if (r.has(4)) bias.add_padding(4);
  if (r.int_attr("unidirectional", 0) != 0) bias.add_causal(r.has(6) ? r.shape(6)[2] : Dim(0));
  if (r.has(5)) bias.add(expr(r, 5));
  return {Item::tensor(attend(r, h, bias.total()), r.elem()), Item::tensor(h.k, r.elem()),
          Item::tensor(h.v, r.elem())};
}

// input, weights, bias, mask, past [2, batch, heads, time, size], attention_bias
Items attention_with_weights(Row& r) {
  Graph& g = r.g;
  refuse_inputs(r, {{6, "past_sequence_length"}});
  if (r.int_attr("do_rotary", 0) != 0) r.refuse("do_rotary is not supported");
  const std::int64_t heads = r.int_attr("num_heads", 1);
  Expr all(g, matmul_any_rank(g, r.in(0), r.in(1)));
  if (r.has(2)) all = all + expr(r, 2);
  const auto width = all.shape()[2].as_const();
  if (!width) r.refuse("the width of the weights is not known");
  const Ints sizes = r.ints_attr("qkv_hidden_sizes", Ints(3, *width / 3));
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != *width)
    r.refuse("qkv_hidden_sizes do not add up to the width of the weights");
  const auto part = [&](std::int64_t from, std::int64_t size) {
    return Expr(g, split_heads(g, slice(all, 2, from, size), heads));
  };
  Heads h{part(0, sizes[0]), part(sizes[0], sizes[1]), part(sizes[0] + sizes[1], sizes[2])};
  if (r.has(4)) {
    h.k = {g, ops::cat(g, {select(expr(r, 4), 0, 0).v, h.k.v}, 2)};
    h.v = {g, ops::cat(g, {select(expr(r, 4), 0, 1).v, h.v.v}, 2)};
  }
  Bias bias(r, h);
  if (r.has(3)) bias.add_padding(3);
  if (r.int_attr("unidirectional", 0) != 0) bias.add_causal(r.has(4) ? r.shape(4)[3] : Dim(0));
  if (r.has(5)) bias.add(expr(r, 5));
  Items items = r.one(attend(r, h, bias.total()));
  if (r.wants(1))
    items.push_back(
        Item::tensor(ops::cat(g, {unsqueeze(h.k, 0).v, unsqueeze(h.v, 0).v}, 0), r.elem()));
  return items;
}

// The queries, keys and values of GroupQueryAttention, packed or not.
Heads grouped_heads(const Row& r) {
  Graph& g = r.g;
  const std::int64_t heads = r.int_attr("num_heads", 1), kv_heads = r.int_attr("kv_num_heads", 1);
  Expr q = expr(r, 0), k = q, v = q;
  if (r.has(1)) {
    k = expr(r, 1);
    v = expr(r, 2);
  } else {
    const auto width = q.shape()[2].as_const();
    if (!width) r.refuse("the size of the packed queries is not known");
    const std::int64_t size = *width / (heads + 2 * kv_heads);
    Expr packed = q;
    q = slice(packed, 2, 0, heads * size);
    k = slice(packed, 2, heads * size, kv_heads * size);
    v = slice(packed, 2, (heads + kv_heads) * size, kv_heads * size);
  }
  return {{g, split_heads(g, q, heads)},
          {g, split_heads(g, k, kv_heads)},
          {g, split_heads(g, v, kv_heads)}};
}

// query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos, sin,
// position_ids, attention_bias
Items group_query(Row& r) {
  Graph& g = r.g;
  refuse_inputs(r, {{11, "head_sink"}, {12, "k_scale"}, {13, "v_scale"}});
  if (r.int_attr("smooth_softmax", 0) > 0) r.refuse("smooth_softmax is not supported");
  Heads h = grouped_heads(r);
  const Dim batch = h.batch(), time = h.queries();
  // seqlens_k is the last valid position of each batch entry: queries end there.
  Expr last = reshape(expr(r, 5).to(DType::i64), {batch, Dim(1), Dim(1), Dim(1)});
  Expr place = last + places(g, time, 2) - Expr(g, ops::dim_value(g, time - 1));
  if (r.int_attr("do_rotary", 0) != 0) {
    Expr positions = r.has(9) ? reshape(expr(r, 9).to(DType::i64), {batch, time})
                              : max(reshape(place, {batch, time}), 0);
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
  Expr key = places(g, h.keys(), 3);
  Expr seen = key <= place;
  const std::int64_t window = r.int_attr("local_window_size", -1);
  if (window > 0) seen = seen & (place - key < static_cast<double>(window));
  std::optional<Expr> bias;
  if (r.has(10)) bias = expr(r, 10);
  const double cap = r.float_attr("softcap", 0);
  Value* y = nullptr;
  if (cap > 0) {
    y = attend_with_cap(r, h, seen, bias, cap);
  } else if (bias) {
    const Expr hidden = bias->number(-std::numeric_limits<double>::infinity());
    y = attend(r, h, where(seen, *bias, hidden));
  } else {
    y = attend(r, h, seen);
  }
  return {Item::tensor(y, r.elem()), Item::tensor(h.k, r.elem()), Item::tensor(h.v, r.elem())};
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

}  // namespace

void add_microsoft_attention_rows() {
  const auto add = [](const char* op, RowFunction row) {
    add_row("com.microsoft", op, std::move(row));
  };
  add("Attention", attention_with_weights);
  add("MultiHeadAttention", multi_head);
  add("GroupQueryAttention", group_query);
  add("RotaryEmbedding", microsoft_rotary);
}

}  // namespace gex::onnx
