#include "loop/builder.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "loop/scalar.hpp"
#include "loop/simplify.hpp"
#include "loop/walk.hpp"

namespace gex::loop {
namespace {

std::size_t hash_of(const Expr& e) {
  Hash h = hash_combine(
      static_cast<Hash>(e.kind) << 16 | static_cast<Hash>(e.dtype) << 8 | static_cast<Hash>(e.prim),
      std::bit_cast<std::uint64_t>(e.imm) ^ static_cast<Hash>(e.imm_int));
  for (ExprId a : e.args) h = hash_combine(h, static_cast<Hash>(a));
  h = hash_combine(h, std::hash<Dim>()(e.dim));
  for (Dim d : e.index) h = hash_combine(h, std::hash<Dim>()(d));
  h = hash_combine(h, static_cast<Hash>(e.buffer + 1) << 32 | static_cast<Hash>(e.slot));
  return hash_combine(h, static_cast<Hash>(e.pred + 1) << 32 | static_cast<Hash>(e.fill + 1));
}

}  // namespace

ScalarBuilder::ScalarBuilder(std::vector<Expr>& exprs) : exprs_(exprs) {
  for (std::size_t i = 0; i < exprs.size(); ++i) {
    by_hash_.emplace(hash_of(exprs[i]), static_cast<ExprId>(i));
    std::vector<Dim> symbols;
    for_each_dim(exprs[i], [&](Dim d) { d.collect_symbols(symbols); });
    for (Dim s : symbols)
      if (auto id = value_symbol_id(s)) value_symbols_.emplace(*id, s);
  }
}

Scalar ScalarBuilder::intern(Expr expr) {
  std::size_t h = hash_of(expr);
  auto [first, last] = by_hash_.equal_range(h);
  for (; first != last; ++first)
    if (exprs_[static_cast<std::size_t>(first->second)] == expr) return {first->second, expr.dtype};
  auto id = static_cast<ExprId>(exprs_.size());
  DType dtype = expr.dtype;
  exprs_.push_back(std::move(expr));
  by_hash_.emplace(h, id);
  return {id, dtype};
}

Scalar ScalarBuilder::constant(DType dtype, double value) {
  if (!is_float(dtype) && dtype != DType::boolean)
    return intern(constant_expr(dtype, convert({.f = value}, DType::f64, dtype)));
  return intern(constant_expr(
      dtype, is_float(dtype) ? ScalarValue{.f = value} : ScalarValue{.i = value != 0}));
}

Scalar ScalarBuilder::constant_int(DType dtype, std::int64_t value) {
  return intern(constant_expr(dtype, convert({.i = value}, DType::i64, dtype)));
}

Scalar ScalarBuilder::index(Dim value) {
  if (auto c = value.as_const()) return constant_int(DType::i64, *c);
  if (auto id = value_symbol_id(value)) return {*id, DType::i64};
  Expr e;
  e.kind = Expr::Kind::index;
  e.dtype = DType::i64;
  e.dim = value;
  return intern(std::move(e));
}

Dim ScalarBuilder::as_dim(Scalar value, DimRange range) {
  GEX_CHECK(value.dtype == DType::i64, "an index must be i64, got ", value.dtype);
  const Expr& e = expr(value);
  if (e.kind == Expr::Kind::constant) return e.imm_int;
  if (e.kind == Expr::Kind::index) return e.dim;
  return value_symbols_.try_emplace(value.id, value_symbol(value.id, range)).first->second;
}

Scalar ScalarBuilder::load(int buffer, DType dtype, std::vector<Dim> index) {
  return load(buffer, dtype, std::move(index), {}, {});
}

Scalar ScalarBuilder::load(int buffer, DType dtype, std::vector<Dim> index, Scalar pred,
                           Scalar fill) {
  Expr e;
  e.kind = Expr::Kind::load;
  e.dtype = dtype;
  e.buffer = buffer;
  if (pred.id != kNoExpr && !is_true(pred)) {
    GEX_CHECK(pred.dtype == DType::boolean && fill.dtype == dtype, "predicated load of ", dtype,
              " with ", pred.dtype, " predicate and ", fill.dtype, " fill");
    if (expr(pred).kind == Expr::Kind::constant) return fill;
    e.pred = pred.id;
    e.fill = fill.id;
  }
  e.index = std::move(index);
  return intern(std::move(e));
}

Scalar ScalarBuilder::prim(Prim prim, std::span<const Scalar> args) {
  std::vector<DType> dtypes;
  for (const Scalar& a : args) dtypes.push_back(a.dtype);
  auto result = result_dtype(prim, dtypes);
  if (!result) {
    std::string got;
    for (DType d : dtypes) got += str(got.empty() ? "" : ", ", d);
    fail(ErrorCode::type_mismatch, name_of(prim), " takes ", arity_of(prim),
         " operands of one fitting dtype, got (", got, ")");
  }
  std::vector<Scalar> operands(args.begin(), args.end());
  // Constants go right: one form for the rules below, and more common subexpressions.
  if (is_commutative(prim, dtypes[0]) && expr(operands[0]).kind == Expr::Kind::constant)
    std::swap(operands[0], operands[1]);
  if (auto simpler = simplify_prim(*this, prim, operands)) return *simpler;
  Expr e;
  e.kind = Expr::Kind::prim;
  e.dtype = *result;
  e.prim = prim;
  for (const Scalar& a : operands) e.args.push_back(a.id);
  return intern(std::move(e));
}

Scalar ScalarBuilder::cast(Scalar value, DType dtype) {
  if (value.dtype == dtype) return value;
  if (auto simpler = simplify_cast(*this, value, dtype)) return *simpler;
  Expr e;
  e.kind = Expr::Kind::cast;
  e.dtype = dtype;
  e.args = {value.id};
  return intern(std::move(e));
}

namespace {
Expr slot_expr(Expr::Kind kind, int slot, DType dtype) {
  Expr e;
  e.kind = kind;
  e.dtype = dtype;
  e.slot = slot;
  return e;
}
}  // namespace

Scalar ScalarBuilder::acc(int slot, DType dtype) {
  return intern(slot_expr(Expr::Kind::acc, slot, dtype));
}
Scalar ScalarBuilder::lhs(int slot, DType dtype) {
  return intern(slot_expr(Expr::Kind::lhs, slot, dtype));
}
Scalar ScalarBuilder::rhs(int slot, DType dtype) {
  return intern(slot_expr(Expr::Kind::rhs, slot, dtype));
}

Scalar ScalarBuilder::binary(Prim p, Scalar a, Scalar b) {
  Scalar args[] = {a, b};
  return prim(p, args);
}

Scalar ScalarBuilder::select(Scalar cond, Scalar yes, Scalar no) {
  Scalar args[] = {cond, yes, no};
  return prim(Prim::select, args);
}

Scalar ScalarBuilder::in_bounds(Dim value, Dim lo, Dim hi) {
  auto above = known_le(lo, value);
  auto below = known_lt(value, hi);
  if (above == false || below == false) return constant_int(DType::boolean, 0);
  Scalar result = constant_int(DType::boolean, 1);
  if (!above) result = logical_and(result, binary(Prim::ge, index(value), index(lo)));
  if (!below) result = logical_and(result, binary(Prim::lt, index(value), index(hi)));
  return result;
}

bool ScalarBuilder::is_true(Scalar s) const {
  const Expr& e = expr(s);
  return e.kind == Expr::Kind::constant && e.dtype == DType::boolean && e.imm != 0;
}

}  // namespace gex::loop
