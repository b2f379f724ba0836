#pragma once
// Values with operators, so that rows read like the formulas of the ONNX specification. Operands of
// one operator have the same dtype; numbers take that of the other operand.

#include <limits>
#include <utility>

#include "frontend/onnx/row.hpp"
#include "ops/core/build.hpp"

namespace gex::onnx {

struct Expr {
  Graph& g;
  Value* v;

  Expr(Graph& graph, Value* value) : g(graph), v(value) {}
  Expr(const Expr&) = default;
  Expr& operator=(const Expr& other) {
    v = other.v;
    return *this;
  }
  DType dtype() const { return v->type().dtype; }
  const Shape& shape() const { return v->type().shape; }
  int rank() const { return v->type().rank(); }
  Expr number(double x) const {
    if (gex::is_float(dtype())) return {g, ops::scalar(g, dtype(), x)};
    return {g, ops::scalar_int(g, dtype(), static_cast<std::int64_t>(x))};
  }
  Expr to(DType t) const { return {g, ops::cast(g, v, t)}; }
  operator Value*() const { return v; }
};

#define GEX_EXPR_BINARY(symbol, name)                                                     \
  inline Expr operator symbol(Expr a, Expr b) { return {a.g, ops::name(a.g, a.v, b.v)}; } \
  inline Expr operator symbol(Expr a, double b) { return a symbol a.number(b); }          \
  inline Expr operator symbol(double a, Expr b) { return b.number(a) symbol b; }
GEX_EXPR_BINARY(+, add)
GEX_EXPR_BINARY(-, sub)
GEX_EXPR_BINARY(*, mul)
GEX_EXPR_BINARY(/, div)
GEX_EXPR_BINARY(<, lt)
GEX_EXPR_BINARY(<=, le)
GEX_EXPR_BINARY(>, gt)
GEX_EXPR_BINARY(>=, ge)
GEX_EXPR_BINARY(==, eq)
GEX_EXPR_BINARY(!=, ne)
#undef GEX_EXPR_BINARY
inline Expr operator-(Expr a) { return {a.g, ops::neg(a.g, a.v)}; }
inline Expr operator!(Expr a) { return {a.g, ops::bit_not(a.g, a.v)}; }
inline Expr operator&(Expr a, Expr b) { return {a.g, ops::bit_and(a.g, a.v, b.v)}; }
inline Expr operator|(Expr a, Expr b) { return {a.g, ops::bit_or(a.g, a.v, b.v)}; }
inline Expr where(Expr c, Expr a, Expr b) { return {c.g, ops::where(c.g, c.v, a.v, b.v)}; }
inline Expr unary(const char* op, Expr a) { return {a.g, ops::apply(a.g, op, {a.v})}; }
inline Expr binary(const char* op, Expr a, Expr b) {
  return {a.g, ops::apply(a.g, op, {a.v, b.v})};
}
inline Expr max(Expr a, Expr b) { return binary("maximum", a, b); }
inline Expr min(Expr a, Expr b) { return binary("minimum", a, b); }
inline Expr max(Expr a, double b) { return max(a, a.number(b)); }
inline Expr min(Expr a, double b) { return min(a, a.number(b)); }
inline Expr exp(Expr a) { return unary("exp", a); }
inline Expr log(Expr a) { return unary("log", a); }
inline Expr sqrt(Expr a) { return unary("sqrt", a); }
inline Expr abs(Expr a) { return unary("abs", a); }
inline Expr tanh(Expr a) { return unary("tanh", a); }
inline Expr sigmoid(Expr a) { return unary("sigmoid", a); }
inline Expr floor(Expr a) { return unary("floor", a); }
inline Expr round(Expr a) { return unary("round", a); }
inline Expr sum(Expr a, Ints axes, bool keep = false) {
  return {a.g, ops::reduce_sum(a.g, a.v, std::move(axes), keep)};
}
inline Expr mean(Expr a, Ints axes, bool keep = false) {
  return {a.g, ops::reduce_mean(a.g, a.v, std::move(axes), keep)};
}
inline Expr reshape(Expr a, Shape shape) { return {a.g, ops::reshape(a.g, a.v, std::move(shape))}; }
inline Expr transpose(Expr a, Ints perm) {
  return {a.g, ops::transpose(a.g, a.v, std::move(perm))};
}
inline Expr expand(Expr a, Shape shape) { return {a.g, ops::expand(a.g, a.v, std::move(shape))}; }
inline Expr unsqueeze(Expr a, std::int64_t axis) { return {a.g, ops::unsqueeze(a.g, a.v, axis)}; }
inline Expr squeeze(Expr a, std::int64_t axis) { return {a.g, ops::squeeze(a.g, a.v, axis)}; }
inline Expr slice(Expr a, std::int64_t axis, Dim start, Dim size, std::int64_t step = 1) {
  return {a.g, ops::slice(a.g, a.v, axis, start, size, step)};
}
inline Expr select(Expr a, std::int64_t axis, Dim at) {
  return {a.g, ops::select(a.g, a.v, axis, at)};
}
inline Expr take(Expr a, Expr indices, std::int64_t axis) {
  return {a.g, ops::take(a.g, a.v, indices.v, axis)};
}
inline Expr matmul(Expr a, Expr b) { return {a.g, ops::matmul(a.g, a.v, b.v)}; }
inline Expr iota(Graph& g, Dim size) { return {g, ops::iota(g, size)}; }

inline Expr expr(const Row& r, std::size_t i) { return {r.g, r.in(i)}; }
// In the compute type: f32 for f16 and bf16, so that a formula of several steps is rounded once.
inline Expr wide(const Row& r, std::size_t i) { return expr(r, i).to(compute_type(r.dtype(i))); }

}  // namespace gex::onnx
