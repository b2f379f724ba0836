#pragma once
// A sum of integer multiples of monomials, for arithmetic. Private to src/base/dim.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/dim/node.hpp"

namespace gex {

struct PolyTerm {
  Dim monomial;
  std::int64_t coefficient;
};

struct Poly {
  std::int64_t constant = 0;
  std::vector<PolyTerm> terms;  // sorted by compare_monomials, no zero coefficients
  // Set once a coefficient overflows 64 bits; the Poly is then invalid and callers give up.
  bool overflow = false;

  Poly() = default;
  explicit Poly(std::int64_t c) : constant(c) {}
  explicit Poly(Dim d);
  bool is_const() const { return terms.empty(); }
  bool is_zero() const { return terms.empty() && constant == 0; }
  std::size_t size() const { return terms.size() + (constant != 0); }

  // this += k * other
  void add(const Poly& other, std::int64_t k = 1);
  Poly operator*(const Poly& other) const;
  Poly operator+(const Poly& other) const;
  Poly operator-(const Poly& other) const;
  Poly operator-() const;
};

// The canonical Dim of a sum; combines divisions with their remainders. UserError on overflow.
Dim to_dim(Poly sum);

Dim monomial_product(Dim a, Dim b);
// a / b, if a has all factors of b, else nullopt; the constant 1 if nothing is left.
std::optional<Dim> monomial_quotient(Dim a, Dim b);

// a = quotient*divisor + remainder, where no term of the remainder is divisible (coefficients
// divide towards zero, the constant towards minus infinity).
struct PolyDivision {
  Poly quotient;
  Poly remainder;
};
PolyDivision divide(const Poly& a, const Poly& divisor);
// a / divisor if that leaves no remainder.
std::optional<Poly> divide_exactly(const Poly& a, const Poly& divisor);

}  // namespace gex
