#include "base/dim/poly.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace gex {

namespace {

using Kind = Dim::Kind;

PolyTerm term_of(Dim summand) {
  const DimNode* n = summand.node();
  return {DimFactory::wrap(n->monomial), n->kind == Kind::mul ? n->value : 1};
}

void add_term(Poly& p, Dim monomial, std::int64_t coefficient) {
  auto at = std::lower_bound(
      p.terms.begin(), p.terms.end(), monomial,
      [](const PolyTerm& t, Dim m) { return compare_monomials(t.monomial, m) < 0; });
  if (at == p.terms.end() || at->monomial != monomial) {
    if (coefficient != 0) p.terms.insert(at, {monomial, coefficient});
    return;
  }
  p.overflow |= __builtin_add_overflow(at->coefficient, coefficient, &at->coefficient);
  if (at->coefficient == 0) p.terms.erase(at);
}

// coefficient * monomial, where the monomial may be the constant 1.
void add_scaled(Poly& p, Dim monomial, std::int64_t coefficient) {
  if (monomial.is_const()) {
    p.overflow |= __builtin_add_overflow(p.constant, coefficient, &p.constant);
  } else {
    add_term(p, monomial, coefficient);
  }
}

}  // namespace

Poly::Poly(Dim d) {
  const DimNode* n = d.node();
  if (n->kind == Kind::constant) {
    constant = n->value;
  } else if (n->kind == Kind::add) {
    terms.reserve(n->operands.size());
    for (Dim s : n->operands) {
      if (s.is_const()) {
        constant = s.node()->value;
      } else {
        terms.push_back(term_of(s));
      }
    }
  } else {
    terms.push_back(term_of(d));
  }
}

void Poly::add(const Poly& other, std::int64_t k) {
  overflow |= other.overflow;
  std::int64_t c = 0;
  overflow |= __builtin_mul_overflow(other.constant, k, &c);
  overflow |= __builtin_add_overflow(constant, c, &constant);
  std::vector<PolyTerm> merged;
  merged.reserve(terms.size() + other.terms.size());
  auto a = terms.begin();
  auto b = other.terms.begin();
  while (a != terms.end() || b != other.terms.end()) {
    int order = a == terms.end()         ? 1
                : b == other.terms.end() ? -1
                                         : compare_monomials(a->monomial, b->monomial);
    if (order < 0) {
      merged.push_back(*a++);
      continue;
    }
    PolyTerm t = *b++;
    overflow |= __builtin_mul_overflow(t.coefficient, k, &t.coefficient);
    if (order == 0) {
      overflow |= __builtin_add_overflow(t.coefficient, a->coefficient, &t.coefficient);
      ++a;
    }
    if (t.coefficient != 0) merged.push_back(t);
  }
  terms = std::move(merged);
}

Poly Poly::operator+(const Poly& other) const {
  Poly r = *this;
  r.add(other);
  return r;
}

Poly Poly::operator-(const Poly& other) const {
  Poly r = *this;
  r.add(other, -1);
  return r;
}

Poly Poly::operator-() const {
  Poly r;
  r.add(*this, -1);
  return r;
}

Poly Poly::operator*(const Poly& other) const {
  if (other.is_const()) {
    Poly r;
    r.add(*this, other.constant);
    r.overflow |= other.overflow;
    return r;
  }
  if (is_const()) return other * *this;
  Poly other_terms = other;
  other_terms.constant = 0;
  Poly r;
  r.add(*this, other.constant);
  r.add(other_terms, constant);
  for (const PolyTerm& x : terms) {
    for (const PolyTerm& y : other.terms) {
      std::int64_t c = 0;
      r.overflow |= __builtin_mul_overflow(x.coefficient, y.coefficient, &c);
      add_term(r, monomial_product(x.monomial, y.monomial), c);
    }
  }
  return r;
}

Dim monomial_product(Dim a, Dim b) {
  auto x = atoms_of(a);
  auto y = atoms_of(b);
  std::vector<Dim> atoms(x.size() + y.size());
  std::ranges::merge(x, y, atoms.begin(), content_less);
  return DimFactory::mul(1, atoms);
}

std::optional<Dim> monomial_quotient(Dim a, Dim b) {
  if (a == b) return Dim(1);
  auto x = atoms_of(a);
  auto y = atoms_of(b);
  if (y.size() >= x.size()) return std::nullopt;
  std::vector<Dim> left;
  left.reserve(x.size());
  std::size_t j = 0;
  for (Dim atom : x) {
    if (j < y.size() && atom == y[j]) {
      ++j;
    } else {
      left.push_back(atom);
    }
  }
  if (j != y.size()) return std::nullopt;
  return DimFactory::mul(1, left);
}

PolyDivision divide(const Poly& a, const Poly& divisor) {
  PolyDivision d;
  d.quotient.overflow = a.overflow || divisor.overflow;
  GEX_CHECK(!divisor.is_zero());
  if (divisor.is_const()) {
    std::int64_t c = divisor.constant;
    if (c == -1) {  // the only division that can overflow 64 bits
      d.quotient.add(a, -1);
      return d;
    }
    for (const PolyTerm& t : a.terms) {
      if (t.coefficient / c != 0) d.quotient.terms.push_back({t.monomial, t.coefficient / c});
      if (t.coefficient % c != 0) d.remainder.terms.push_back({t.monomial, t.coefficient % c});
    }
    d.quotient.constant = floor_div(a.constant, c);
    d.remainder.constant = floor_mod(a.constant, c);
    return d;
  }
  // Long division by the leading term. Each step cancels a term and adds only smaller ones.
  const PolyTerm lead = divisor.terms.front();
  Poly work = a;
  std::size_t at = 0;
  while (at < work.terms.size() && !work.overflow) {
    PolyTerm t = work.terms[at];
    auto q = monomial_quotient(t.monomial, lead.monomial);
    bool can_divide = lead.coefficient != -1 || t.coefficient != INT64_MIN;
    if (!q || !can_divide || t.coefficient / lead.coefficient == 0) {
      ++at;
      continue;
    }
    Poly step;
    add_scaled(step, *q, t.coefficient / lead.coefficient);
    d.quotient.add(step);
    work.add(step * divisor, -1);
    // A coefficient that is not divisible stays in the remainder.
    if (at < work.terms.size() && work.terms[at].monomial == t.monomial) ++at;
  }
  d.quotient.overflow |= work.overflow;
  d.remainder = std::move(work);
  return d;
}

std::optional<Poly> divide_exactly(const Poly& a, const Poly& divisor) {
  PolyDivision d = divide(a, divisor);
  if (d.quotient.overflow || !d.remainder.is_zero()) return std::nullopt;
  return d.quotient;
}

namespace {

bool contains(const Poly& sum, const Poly& part) {
  if (part.overflow) return false;
  return std::ranges::all_of(part.terms, [&](const PolyTerm& t) {
    auto at = std::lower_bound(
        sum.terms.begin(), sum.terms.end(), t.monomial,
        [](const PolyTerm& x, Dim m) { return compare_monomials(x.monomial, m) < 0; });
    return at != sum.terms.end() && at->monomial == t.monomial && at->coefficient == t.coefficient;
  });
}

// If every term of `old_part` is in the sum with the same coefficient, puts `new_part` in its
// place.
bool replace_part(Poly& sum, const Poly& old_part, const Poly& new_part) {
  if (!contains(sum, old_part)) return false;
  Poly result = sum - old_part + new_part;
  if (result.overflow) return false;
  sum = std::move(result);
  return true;
}

// The factor of the atom in the sum.
Poly cofactor_of(const Poly& sum, Dim atom) {
  Poly cofactor;
  for (const PolyTerm& t : sum.terms) {
    if (auto rest = monomial_quotient(t.monomial, atom)) {
      add_scaled(cofactor, *rest, t.coefficient);
    }
  }
  return cofactor;
}

// m = x % b with factor k:  k*b*(x//b) + k*m -> k*x   and   k*m - k*x -> -k*b*(x//b)
bool join_mod(Poly& sum, Dim m) {
  Poly x(m.operands()[0]);
  Poly b(m.operands()[1]);
  Poly k = cofactor_of(sum, m);
  Poly bq = b * Poly(floordiv(m.operands()[0], m.operands()[1]));
  if (replace_part(sum, k * (bq + Poly(m)), k * x)) return true;
  return !x.is_const() && replace_part(sum, k * (Poly(m) - x), -(k * bq));
}

// q = x//b with factor k*b:  k*b*q + k*(x % b) -> k*x   and   k*b*q - k*x -> -k*(x % b)
bool join_floordiv(Poly& sum, Dim q, Dim x, Dim b, bool has_mod) {
  auto k = divide_exactly(cofactor_of(sum, q), Poly(b));
  if (!k) return false;
  Poly bq = Poly(b) * Poly(q);
  Poly difference = *k * (bq - Poly(x));
  // Searched before the remainder is built: most sums do not contain it.
  if (!x.is_const() && contains(sum, difference)) {
    return replace_part(sum, difference, -(*k * Poly(mod(x, b))));
  }
  return has_mod && replace_part(sum, *k * (bq + Poly(mod(x, b))), *k * Poly(x));
}

// One step towards a sum without separate quotient and remainder of the same division.
bool join_one(Poly& sum) {
  std::vector<Dim> divisions;
  bool has_mod = false;
  for (const PolyTerm& t : sum.terms) {
    for (Dim atom : atoms_of(t.monomial)) {
      bool is_mod = atom.kind() == Kind::mod;
      if (!is_mod && atom.kind() != Kind::floordiv) continue;
      has_mod |= is_mod;
      if (!std::ranges::count(divisions, atom)) divisions.push_back(atom);
    }
  }
  for (Dim d : divisions) {
    Dim x = d.operands()[0];
    Dim b = d.operands()[1];
    if (d.kind() == Kind::mod) {
      if (join_mod(sum, d)) return true;
      continue;
    }
    if (join_floordiv(sum, d, x, b, has_mod)) return true;
    // x//(a*c) equals (x//a)//c.
    for (Dim inner : divisions) {
      if (inner == d || inner.kind() != Kind::floordiv || inner.operands()[0] != x) continue;
      auto c = divide_exactly(Poly(b), Poly(inner.operands()[1]));
      if (!c) continue;
      Dim outer = to_dim(*c);
      if (floordiv(inner, outer) == d && join_floordiv(sum, d, inner, outer, has_mod)) return true;
    }
  }
  return false;
}

}  // namespace

Dim to_dim(Poly sum) {
  if (sum.overflow) {
    fail(ErrorCode::invalid_argument,
         "a size expression has a coefficient that does not fit 64 bits");
  }
  bool has_division = std::ranges::any_of(
      sum.terms, [](const PolyTerm& t) { return t.monomial.node()->has_division; });
  // Each step makes the sum shorter or simpler; the bound is a safety limit.
  for (int step = 0; has_division && sum.size() > 1 && step < 64 && join_one(sum); ++step) {
  }
  if (sum.terms.empty()) return DimFactory::constant(sum.constant);
  auto summand = [](const PolyTerm& t) {
    return DimFactory::mul(t.coefficient, atoms_of(t.monomial));
  };
  if (sum.terms.size() == 1 && sum.constant == 0) return summand(sum.terms[0]);
  std::vector<Dim> summands;
  summands.reserve(sum.size());
  if (sum.constant != 0) summands.push_back(DimFactory::constant(sum.constant));
  for (const PolyTerm& t : sum.terms) summands.push_back(summand(t));
  return DimFactory::add(summands);
}

}  // namespace gex
