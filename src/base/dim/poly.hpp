#pragma once
// A sum of integer multiples of monomials, taken apart for arithmetic. Private to
// src/base/dim*.cpp.

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
  // Set once a coefficient left 64 bits; such a Poly says nothing, and users of it give up.
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

// The canonical Dim of a sum; joins divisions with their remainders. UserError if the sum left 64
// bits.
Dim to_dim(Poly sum);

Dim monomial_product(Dim a, Dim b);
// a / b, where a holds all factors of b. nullopt if it doesn't; a constant 1 if nothing is left.
std::optional<Dim> monomial_quotient(Dim a, Dim b);

// a = quotient*divisor + remainder with nothing divisible left in the remainder (coefficients
// divide towards zero, the constant towards minus infinity).
struct PolyDivision {
  Poly quotient;
  Poly remainder;
};
PolyDivision divide(const Poly& a, const Poly& divisor);
// a / divisor if that leaves no remainder.
std::optional<Poly> divide_exactly(const Poly& a, const Poly& divisor);

}  // namespace gex
