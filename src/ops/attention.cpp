// Scaled dot-product attention. The expansion is its definition and fallback; the problem's kernels
// never store the scores.

#include <cmath>
#include <limits>
#include <optional>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/problem_rules.hpp"
#include "ops/rows/rows.hpp"
#include "ops/statistics.hpp"

namespace gex::ops {

namespace {

Dim size_at(const Shape& shape, int from_end) {
  return shape[shape.size() - static_cast<std::size_t>(from_end)];
}

Type attention_type(const InferContext& c) {
  require_dtype(c, 0, floating);
  require_same_dtype(c, 0, 1);
  require_same_dtype(c, 0, 2);
  const Shape &q = c.in(0).shape, &k = c.in(1).shape, &v = c.in(2).shape;
  const bool ranks = q.size() >= 2 && q.size() <= 4 && k.size() == q.size() && v.size() == q.size();
  bool fits =
      ranks && assume_eq(size_at(q, 1), size_at(k, 1)) && assume_eq(size_at(k, 2), size_at(v, 2));
  for (int d = static_cast<int>(q.size()); fits && d >= 3; --d) {
    fits = assume_eq(size_at(k, d), size_at(v, d));
    if (d > 3) fits = fits && assume_eq(size_at(q, d), size_at(k, d));
  }
  if (fits && q.size() >= 3)
    fits = !(size_at(k, 3) == Dim(0)) && assume_eq(mod(size_at(q, 3), size_at(k, 3)), 0);
  if (!fits) {
    fail(ErrorCode::shape_mismatch, "attention: q, k, v are ", c.in(0), ", ", c.in(1), ", ",
         c.in(2),
         "; expected [N, H, L, E], [N, H', S, E], [N, H', S, V] with H a multiple of H'; N, or N "
         "and the heads, may be left out, more batch axes have to be reshaped into one");
  }
  if (c.has(3)) {
    Shape scores(q.begin(), q.end() - 1);
    scores.push_back(size_at(k, 2));
    if (!broadcasts_to(c.in(3).shape, scores, c.op_name)) {
      fail(ErrorCode::shape_mismatch, "attention: mask ", c.in(3), " does not broadcast to ",
           text_of(scores));
    }
  }
  Shape shape(q.begin(), q.end() - 1);
  shape.push_back(size_at(v, 1));
  return Type::tensor(c.in(0).dtype, shape);
}

// Repeats each key-value head for every query head that reads it.
Value* repeat_heads(Graph& g, Value* x, const Shape& q) {
  const Shape shape = x->type().shape;
  if (shape.size() < 3 || size_at(shape, 3) == size_at(q, 3)) return x;
  Shape spread(shape.begin(), shape.end() - 2), merged(shape.begin(), shape.end() - 3);
  spread.push_back(floordiv(size_at(q, 3), size_at(shape, 3)));
  merged.push_back(size_at(q, 3));
  for (int from_end : {2, 1}) {
    spread.push_back(size_at(shape, from_end));
    merged.push_back(size_at(shape, from_end));
  }
  return reshape(g, expand(g, unsqueeze(g, x, -3), spread), merged);
}

// The gradient of repeat_heads.
Value* sum_heads(Graph& g, Value* x, Dim kv_heads) {
  const Shape shape = x->type().shape;
  if (size_at(shape, 3) == kv_heads) return x;
  Shape spread(shape.begin(), shape.end() - 3);
  spread.insert(spread.end(), {kv_heads, floordiv(size_at(shape, 3), kv_heads), size_at(shape, 2),
                               size_at(shape, 1)});
  return reduce_sum(g, reshape(g, x, spread), {-3});
}

constexpr double kInf = std::numeric_limits<double>::infinity();

// The factor of the scores; without a number 1 / sqrt(head size), which may be known only at run
// time.
using Scale = std::optional<double>;

Value* scale_value(Graph& g, Scale scale, Value* q, DType t) {
  if (scale) return scalar(g, t, *scale);
  return rsqrt(g, cast(g, dim_value(g, size_at(q->type().shape, 1)), t));
}

// Masked, scaled scores in the compute type.
Value* scores_of(Graph& g, Value* q, Value* k, Value* mask, bool causal, Scale scale) {
  Value* scores = matmul(g, q, swap_axes(g, k, -1, -2), is_low_float(q->type().dtype));
  const DType t = scores->type().dtype;
  scores = mul(g, scores, scale_value(g, scale, q, t));
  Value* hidden = scalar(g, t, -kInf);
  if (mask != nullptr && mask->type().dtype == DType::boolean) {
    scores = where(g, mask, scores, hidden);
  } else if (mask != nullptr) {
    scores = add(g, scores, cast(g, mask, t));
  }
  if (causal) {
    const Shape& shape = scores->type().shape;
    Value* query = unsqueeze(g, iota(g, size_at(shape, 2)), 1);
    scores = where(g, le(g, iota(g, size_at(shape, 1)), query), scores, hidden);
  }
  return scores;
}

// The shift of a query's scores before e^: 0 if it sees no key. All its scores are -inf then, and
// so is their maximum; -inf - -inf would be NaN where e^(-inf - 0) is 0.
Value* finite_shift(Graph& g, Value* shift) {
  const DType t = shift->type().dtype;
  return where(g, eq(g, shift, scalar(g, t, -kInf)), scalar(g, t, 0), shift);
}

// A query that sees no key gives zeros, not NaN, unless the node requests softmax's NaN.
Value* attend(Graph& g, Value* q, Value* k, Value* v, Value* mask, bool causal, Scale scale,
              bool nan_if_fully_masked) {
  const DType dtype = q->type().dtype;
  k = repeat_heads(g, k, q->type().shape);
  v = repeat_heads(g, v, q->type().shape);
  Value* scores = scores_of(g, q, k, mask, causal, scale);
  const DType t = scores->type().dtype;
  if (nan_if_fully_masked) return matmul(g, cast(g, softmax(g, scores, -1), dtype), v);
  Value* largest = reduce_max(g, scores, {-1}, true);
  Value* blind = eq(g, largest, scalar(g, t, -kInf));
  Value* e = exp(g, sub(g, scores, where(g, blind, scalar(g, t, 0), largest)));
  Value* sum = reduce_sum(g, e, {-1}, true);
  Value* weights = div(g, e, where(g, blind, scalar(g, t, 1), sum));
  return matmul(g, cast(g, weights, dtype), v);
}

std::vector<Value*> expand_attention(Graph& g, const Node& n) {
  const auto a = n.as<Attention>();
  if (size_at(n.input(1)->type().shape, 2) == Dim(0))
    return {full(g, n.input(0)->type().dtype, 0, n.output()->type().shape)};
  Value* mask = n.has_input(3) ? n.input(3) : nullptr;
  return {attend(g, n.input(0), n.input(1), n.input(2), mask, a.causal, a.scale,
                 a.nan_if_fully_masked)};
}

Scale scale_argument(const AtenCall& c, std::size_t i, const Value* q) {
  if (!c.none(i)) return c.number(i);
  const Dim size = size_at(q->type().shape, 1);
  if (!size.is_const()) return std::nullopt;
  return 1 / std::sqrt(static_cast<double>(size.constant()));
}

// The op if its scale is a number; else its expansion.
Value* attention_of(Graph& g, Value* q, Value* k, Value* v, Value* mask, bool causal, Scale scale) {
  if (scale) return attention(g, q, k, v, mask, {.causal = causal, .scale = *scale});
  return attend(g, q, k, v, mask, causal, scale, false);
}

// log(sum(e^scores)), which the gradient needs; dead code if it is not used.
Value* log_sum_exp(Graph& g, Value* q, Value* k, Value* mask, bool causal, Scale scale) {
  Value* scores = scores_of(g, q, k, mask, causal, scale);
  Value* shift = finite_shift(g, reduce_max(g, scores, {-1}, true));
  Value* sum = reduce_sum(g, exp(g, sub(g, scores, shift)), {-1}, true);
  return squeeze(g, add(g, log(g, sum), shift), -1);
}

// q, k, v, dropout_p, is_causal, attn_mask, scale -> output, logsumexp
std::vector<Value*> import_flash_cpu(AtenCall& c) {
  Graph& g = c.graph();
  if (c.number(3) != 0) return {};
  Value *q = c.tensor(0), *k = c.tensor(1), *v = c.tensor(2);
  Value* mask = c.none(5) ? nullptr : c.tensor(5);
  const Scale scale = scale_argument(c, 6, q);
  Value* y = attention_of(g, q, k, v, mask, c.flag(4), scale);
  Value* repeated = repeat_heads(g, k, q->type().shape);
  return {y, to_result(c, log_sum_exp(g, q, repeated, mask, c.flag(4), scale), 1)};
}

// q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa
std::vector<Value*> import_sdpa(AtenCall& c) {
  if (c.number(4) != 0 || c.tensor(0)->type().rank() > 4) return {};
  Value* mask = c.none(3) ? nullptr : c.tensor(3);
  Value* q = c.tensor(0);
  return one(attention_of(c.graph(), q, c.tensor(1), c.tensor(2), mask, c.flag(5),
                          scale_argument(c, 6, q)));
}

// grad_out, q, k, v, out, logsumexp, dropout_p, is_causal, attn_mask, scale
std::vector<Value*> import_flash_cpu_backward(AtenCall& c) {
  Graph& g = c.graph();
  Value *q = c.tensor(1), *k = c.tensor(2), *v = c.tensor(3);
  if (c.number(6) != 0) return {};
  const Shape kv_shape = k->type().shape;
  k = repeat_heads(g, k, q->type().shape);
  v = repeat_heads(g, v, q->type().shape);
  const Scale scale = scale_argument(c, 9, q);
  Value *grad = wide(g, c.tensor(0)), *out = wide(g, c.tensor(4));
  const DType t = grad->type().dtype;
  Value* scores = scores_of(g, q, k, c.none(8) ? nullptr : c.tensor(8), c.flag(7), scale);
  Value* log_sum = unsqueeze(g, cast(g, c.tensor(5), t), -1);
  Value* weights = exp(g, sub(g, scores, finite_shift(g, log_sum)));
  Value* grad_weights = matmul(g, grad, swap_axes(g, cast(g, v, t), -1, -2));
  Value* inner = sub(g, grad_weights, reduce_sum(g, mul(g, grad, out), {-1}, true));
  Value* grad_scores = mul(g, mul(g, weights, inner), scale_value(g, scale, q, t));
  Value* grad_q = matmul(g, grad_scores, cast(g, k, t));
  Value* grad_k = matmul(g, swap_axes(g, grad_scores, -1, -2), cast(g, q, t));
  Value* grad_v = matmul(g, swap_axes(g, weights, -1, -2), grad);
  const Dim kv_heads = size_at(kv_shape, 3);
  return {to_result(c, grad_q, 0), to_result(c, sum_heads(g, grad_k, kv_heads), 1),
          to_result(c, sum_heads(g, grad_v, kv_heads), 2)};
}

}  // namespace

void register_attention() {
  Definition("attention",
             "softmax(q k^T * scale + mask) v; query heads may be a multiple of key-value heads; a "
             "boolean mask hides where false.")
      .in({"q", "k", "v"})
      .optional_in({"mask"})
      .attrs<Attention>()
      .traits(Trait::pure | Trait::contraction)
      .infer_one(attention_type)
      .expand(expand_attention)
      .problem(attention_rule())
      .aten("aten._scaled_dot_product_flash_attention_for_cpu.default", import_flash_cpu)
      .aten("aten.scaled_dot_product_attention.default", import_sdpa)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({Dim(1), Dim(4), s, Dim(8)}), data({Dim(1), Dim(2), s + 2, Dim(8)}),
                         data({Dim(1), Dim(2), s + 2, Dim(4)}), flag_data({s, s + 2})},
                        {{"scale", 0.3}},
                        {}};
      })
      .define();
  register_aten_row("aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
                    import_flash_cpu_backward);
  register_aten_facts({"aten._scaled_dot_product_flash_attention",
                       "aten._scaled_dot_product_flash_attention_for_cpu"},
                      {.padding = AtenFacts::Padding::attends, .padding_argument = 4});
  register_aten_facts({"aten.scaled_dot_product_attention"},
                      {.padding = AtenFacts::Padding::attends, .padding_argument = 5});
}

}  // namespace gex::ops
