// Reductions, running sums, softmax and selection by order.

#include <algorithm>
#include <cmath>

#include "frontend/onnx/expr.hpp"
#include "ops/sort.hpp"

namespace gex::onnx {
namespace {

// Attribute or input 1; if absent, all axes, or none if the node says so.
Ints axes_of(Row& r, std::int64_t since) {
  Ints axes = r.opset >= since ? (r.has(1) ? r.integers(1, "axes") : Ints{}) : r.ints_attr("axes");
  for (std::int64_t& axis : axes) axis = normal_axis(axis, r.rank());
  std::ranges::sort(axes);
  if (axes.empty() && (r.opset < since || r.int_attr("noop_with_empty_axes", 0) == 0))
    for (int d = 0; d < r.rank(); ++d) axes.push_back(d);
  return axes;
}

using Reduction = std::function<Expr(Expr x, const Ints& axes, bool keep)>;

void reduction(const char* onnx, std::int64_t since, Reduction f) {
  add_row(onnx, [since, f](Row& r) {
    const Ints axes = axes_of(r, since);
    const bool keep = r.int_attr("keepdims", 1) != 0;
    Expr x = wide(r, 0);
    return r.wrapped(f(x, axes, keep).to(r.dtype()));
  });
}

Expr reduced(const char* op, Expr x, const Ints& axes, bool keep) {
  if (axes.empty()) return x;
  return {x.g, ops::reduce(x.g, op, x.v, axes, keep)};
}

bool is_empty(Expr x, const Ints& axes) {
  return std::ranges::any_of(
      axes, [&](std::int64_t a) { return x.shape()[static_cast<std::size_t>(a)] == Dim(0); });
}

// For no elements: the identity of the reduction.
Expr extremum(const char* op, bool largest, Expr x, const Ints& axes, bool keep) {
  if (x.dtype() == DType::boolean)
    return reduced(op, x.to(DType::u8), axes, keep).to(DType::boolean);
  if (!is_empty(x, axes)) return reduced(op, x, axes, keep);
  Shape shape;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    const bool gone = std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end();
    if (!gone || keep) shape.push_back(gone ? Dim(1) : x.shape()[d]);
  }
  if (gex::is_float(x.dtype()))
    return {x.g, ops::full(x.g, x.dtype(), largest ? -INFINITY : INFINITY, shape)};
  const int bits = static_cast<int>(size_of(x.dtype())) * 8;
  const std::int64_t low = x.dtype() == DType::u8 ? 0 : INT64_MIN >> (64 - bits);
  const std::int64_t high = x.dtype() == DType::u8 ? 255 : INT64_MAX >> (64 - bits);
  return {x.g, ops::expand(x.g, ops::scalar_int(x.g, x.dtype(), largest ? low : high), shape)};
}

// reduce_sum of integers may be wider than they are; the caller casts back.
Expr log_sum_exp(Expr x, const Ints& axes, bool keep) {
  if (!gex::is_float(x.dtype())) x = x.to(DType::f64);
  if (axes.empty()) return x;
  if (is_empty(x, axes)) return log(sum(x, axes, keep));
  Expr top = {x.g, ops::reduce_max(x.g, x.v, axes, true)};
  Expr finite = where(unary("is_inf", top), top.number(0), top);
  Expr total = log(sum(exp(x - finite), axes, true)) + finite;
  if (keep) return total;
  return {x.g, ops::reduce_max(x.g, total.v, axes, false)};
}

Expr as_float(Expr x) { return gex::is_float(x.dtype()) ? x : x.to(DType::f64); }

void add_reductions() {
  reduction("ReduceSum", 13,
            [](Expr x, const Ints& a, bool k) { return reduced("reduce_sum", x, a, k); });
  reduction("ReduceMean", 18, [](Expr x, const Ints& a, bool k) {
    return reduced("reduce_mean", as_float(x), a, k);
  });
  reduction("ReduceProd", 18,
            [](Expr x, const Ints& a, bool k) { return reduced("reduce_prod", x, a, k); });
  reduction("ReduceMax", 18,
            [](Expr x, const Ints& a, bool k) { return extremum("reduce_max", true, x, a, k); });
  reduction("ReduceMin", 18,
            [](Expr x, const Ints& a, bool k) { return extremum("reduce_min", false, x, a, k); });
  reduction("ReduceL1", 18,
            [](Expr x, const Ints& a, bool k) { return reduced("reduce_sum", abs(x), a, k); });
  reduction("ReduceSumSquare", 18,
            [](Expr x, const Ints& a, bool k) { return reduced("reduce_sum", x * x, a, k); });
  reduction("ReduceL2", 18, [](Expr x, const Ints& a, bool k) {
    Expr y = as_float(x);
    return sqrt(reduced("reduce_sum", y * y, a, k));
  });
  reduction("ReduceLogSum", 18, [](Expr x, const Ints& a, bool k) {
    return log(reduced("reduce_sum", as_float(x), a, k));
  });
  reduction("ReduceLogSumExp", 18, log_sum_exp);
}

Items arg_extremum(Row& r, const char* op) {
  const std::int64_t axis = r.axis_attr("axis", 0, r.rank());
  const bool keep = r.int_attr("keepdims", 1) != 0;
  Expr x = expr(r, 0);
  const bool last = r.int_attr("select_last_index", 0) != 0;
  if (last) x = {r.g, ops::flip(r.g, x, {axis})};
  Expr at{r.g, ops::reduce(r.g, op, x, {axis}, keep)};
  if (last) {
    const Dim size = r.shape()[static_cast<std::size_t>(axis)];
    at = Expr(r.g, ops::dim_value(r.g, size - 1)) - at;
  }
  return r.one(at, Elem::i64);
}

Items softmax_family(Row& r, const std::function<Expr(Expr, std::int64_t)>& f) {
  Expr x = wide(r, 0);
  const Shape shape = r.shape();
  const std::int64_t axis = r.axis_attr("axis", r.opset < 13 ? 1 : -1, r.rank());
  if (r.opset >= 13) return r.one(f(x, axis).to(r.dtype()));
  // Older opsets normalise over all axes from `axis` on.
  const Shape outer(shape.begin(), shape.begin() + axis), inner(shape.begin() + axis, shape.end());
  Expr flat = f(reshape(x, {product(outer), product(inner)}), 1);
  return r.one(reshape(flat, shape).to(r.dtype()));
}

Expr hardmax(Expr x, std::int64_t axis) {
  if (x.shape()[static_cast<std::size_t>(axis)] == Dim(0)) return x;
  Expr at{x.g, ops::argmax(x.g, x, {axis}, true)};
  Shape along(x.shape().size(), Dim(1));
  const Dim size = x.shape()[static_cast<std::size_t>(axis)];
  along[static_cast<std::size_t>(axis)] = size;
  return (reshape(iota(x.g, size), along) == at).to(x.dtype());
}

Items running(Row& r, const char* op, double identity) {
  const std::int64_t axis = normal_axis(r.integer(1, "axis"), r.rank());
  const auto at = static_cast<std::size_t>(axis);
  const bool reverse = r.int_attr("reverse", 0) != 0;
  Expr x = wide(r, 0);
  if (reverse) x = {r.g, ops::flip(r.g, x, {axis})};
  Expr y = {r.g, ops::apply(r.g, op, {x.v}, ops::Axis{axis})};
  if (r.int_attr("exclusive", 0) != 0) {
    Dims low(x.shape().size()), high(x.shape().size());
    low[at] = 1;
    high[at] = -1;
    y = {r.g, ops::pad(r.g, y, low, high, identity)};
  }
  if (reverse) y = {r.g, ops::flip(r.g, y, {axis})};
  return r.wrapped(y.to(r.dtype()));
}

Items top_k(Row& r) {
  const std::int64_t axis = r.axis_attr("axis", -1, r.rank());
  ops::TopK a;
  a.k = r.opset < 10 ? Dim(r.int_attr("k", 1)) : r.dims(1, "k").at(0);
  a.axis = axis;
  a.largest = r.int_attr("largest", 1) != 0;
  a.stable = true;
  Expr x = expr(r, 0);
  const bool flip = r.elem() == Elem::u64;
  const Expr top(r.g, ops::scalar_int(r.g, DType::i64, INT64_MIN));
  if (flip) x = binary("bit_xor", x, top);
  const Node* node = r.g.add(op("topk"), {x.v}, a);
  Expr values(r.g, node->output(0));
  if (flip) values = binary("bit_xor", values, top);
  return {Item::tensor(values, r.elem()), Item::tensor(node->output(1), Elem::i64)};
}

}  // namespace

void add_reduce_rows() {
  add_reductions();
  add_row("ArgMax", [](Row& r) { return arg_extremum(r, "argmax"); });
  add_row("ArgMin", [](Row& r) { return arg_extremum(r, "argmin"); });
  add_row("Softmax", [](Row& r) {
    return softmax_family(
        r, [](Expr x, std::int64_t a) { return Expr(x.g, ops::softmax(x.g, x, a)); });
  });
  add_row("LogSoftmax", [](Row& r) {
    return softmax_family(
        r, [](Expr x, std::int64_t a) { return Expr(x.g, ops::log_softmax(x.g, x, a)); });
  });
  add_row("Hardmax", [](Row& r) { return softmax_family(r, hardmax); });
  add_row("CumSum", [](Row& r) { return running(r, "cumsum", 0); });
  add_row("CumProd", [](Row& r) { return running(r, "cumprod", 1); });
  add_row("TopK", top_k);
}

}  // namespace gex::onnx
