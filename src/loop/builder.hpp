#pragma once
// Builds the expressions of one stage or combine body: equal expressions share one id, constants
// are folded, and identities that are exact in every dtype are simplified.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "loop/kernel.hpp"

namespace gex::loop {

struct Scalar {
  ExprId id = kNoExpr;
  DType dtype = DType::f32;
};

class ScalarBuilder {
 public:
  explicit ScalarBuilder(std::vector<Expr>& exprs);

  Scalar constant(DType dtype, double value);
  Scalar constant_int(DType dtype, std::int64_t value);
  Scalar index(Dim value);  // i64
  // The inverse: constants and indices stay exact, others become value symbols. The caller
  // guarantees the range; the first one given for an expression is used.
  Dim as_dim(Scalar i64_value, DimRange range = {});
  Scalar load(int buffer, DType dtype, std::vector<Dim> index);
  Scalar load(int buffer, DType dtype, std::vector<Dim> index, Scalar pred, Scalar fill);
  Scalar prim(Prim prim, std::span<const Scalar> args);
  Scalar cast(Scalar value, DType dtype);  // no-op if equal
  Scalar acc(int slot, DType dtype);
  Scalar lhs(int slot, DType dtype);
  Scalar rhs(int slot, DType dtype);

  // Short forms used by op bodies. Operands of binary forms must have equal dtypes.
  Scalar unary(Prim p, Scalar a) { return prim(p, std::span<const Scalar>(&a, 1)); }
  Scalar binary(Prim p, Scalar a, Scalar b);
  Scalar add(Scalar a, Scalar b) { return binary(Prim::add, a, b); }
  Scalar sub(Scalar a, Scalar b) { return binary(Prim::sub, a, b); }
  Scalar mul(Scalar a, Scalar b) { return binary(Prim::mul, a, b); }
  Scalar div(Scalar a, Scalar b) { return binary(Prim::div, a, b); }
  Scalar select(Scalar cond, Scalar yes, Scalar no);
  Scalar in_bounds(Dim value, Dim lo,
                   Dim hi);  // lo <= value < hi as bool; constant true if provable
  Scalar logical_and(Scalar a, Scalar b) { return binary(Prim::bit_and, a, b); }
  bool is_true(Scalar s) const;

  const Expr& expr(Scalar s) const { return exprs_[static_cast<std::size_t>(s.id)]; }

 private:
  Scalar intern(Expr expr);
  std::vector<Expr>& exprs_;
  std::unordered_multimap<std::size_t, ExprId> by_hash_;
  std::unordered_map<ExprId, Dim> value_symbols_;
};

}  // namespace gex::loop
