// floordiv and mod, and the rules that remove reshapes from index expressions.
//
// Every rule handles both: with a = q*b + r, floordiv takes q and mod takes r, so that b*(a//b) +
// a%b simplifies back to a.
#include <algorithm>
#include <numeric>

#include "base/dim/prove.hpp"
#include "base/error.hpp"

namespace gex {

namespace {

using Kind = Dim::Kind;

enum class Want { quotient, remainder };

Dim again(Want want, Dim a, Dim b) { return want == Want::quotient ? floordiv(a, b) : mod(a, b); }

std::uint64_t magnitude(std::int64_t v) {
  return v < 0 ? ~static_cast<std::uint64_t>(v) + 1 : static_cast<std::uint64_t>(v);
}

std::int64_t gcd64(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(std::gcd(magnitude(a), magnitude(b)), INT64_MAX));
}

// The common part of two coefficient*monomial pairs; the monomial may be the constant 1.
PolyTerm common_part(const PolyTerm& a, const PolyTerm& b) {
  PolyTerm out{Dim(1), gcd64(a.coefficient, b.coefficient)};
  if (a.monomial.is_const() || b.monomial.is_const()) return out;
  std::vector<Dim> atoms;
  std::ranges::set_intersection(atoms_of(a.monomial), atoms_of(b.monomial),
                                std::back_inserter(atoms), content_less);
  if (!atoms.empty()) out.monomial = DimFactory::mul(1, atoms);
  return out;
}

// The largest coefficient*monomial that divides every summand.
PolyTerm content_of(const Poly& p) {
  PolyTerm out = p.terms.empty() ? PolyTerm{Dim(1), p.constant} : p.terms[0];
  for (const PolyTerm& t : p.terms) out = common_part(out, t);
  if (p.constant != 0) out = common_part(out, {Dim(1), p.constant});
  return out;
}

Poly poly_of(const PolyTerm& t) { return Poly(t.monomial) * Poly(t.coefficient); }

// Factors f of b worth trying: b's factor that is a sum, and common factors of b with single
// summands of a, largest first.
std::vector<Poly> factor_candidates(const Poly& a, const Poly& b) {
  PolyTerm content = content_of(b);
  std::vector<PolyTerm> parts;
  for (const PolyTerm& t : a.terms) {
    PolyTerm part = common_part(t, content);
    auto same = [&](const PolyTerm& p) {
      return p.coefficient == part.coefficient && p.monomial == part.monomial;
    };
    bool one = part.coefficient == 1 && part.monomial.is_const();
    if (!one && std::ranges::none_of(parts, same)) parts.push_back(part);
  }
  auto degree = [](const PolyTerm& t) {
    return t.monomial.is_const() ? std::size_t{0} : atoms_of(t.monomial).size();
  };
  std::ranges::stable_sort(parts, [&](const PolyTerm& x, const PolyTerm& y) {
    if (degree(x) != degree(y)) return degree(x) > degree(y);
    return x.coefficient > y.coefficient;
  });
  std::vector<Poly> out;
  bool has_content = content.coefficient != 1 || !content.monomial.is_const();
  if (b.size() > 1 && has_content) {
    if (auto primitive = divide_exactly(b, poly_of(content))) out.push_back(*primitive);
  }
  for (const PolyTerm& p : parts) out.push_back(poly_of(p));
  return out;
}

// (f*x + r) over (f*g) with 0 <= r < f  ->  x//g,  f*(x % g) + r
std::optional<Dim> drop_factor(Want want, const Poly& a, const Poly& b, DimProver& prover) {
  for (const Poly& f : factor_candidates(a, b)) {
    auto g = divide_exactly(b, f);
    if (!g) continue;
    PolyDivision d = divide(a, f);
    if (d.quotient.overflow || d.quotient.is_const()) continue;
    bool fits =
        prover.nonnegative(f) && prover.nonnegative(d.remainder) && prover.less(d.remainder, f);
    if (!fits) continue;
    Dim part = again(want, to_dim(d.quotient), to_dim(*g));
    return want == Want::quotient ? part : to_dim(f) * part + to_dim(d.remainder);
  }
  return std::nullopt;
}

// (x//c + y)//b  ->  (x + c*y)//(c*b)  for b > 0
std::optional<Dim> merge_divisions(const Poly& a, const Poly& b, DimProver& prover) {
  for (const PolyTerm& t : a.terms) {
    if (t.coefficient != 1 || t.monomial.kind() != Kind::floordiv) continue;
    if (!prover.nonnegative(b)) return std::nullopt;
    Dim c = t.monomial.operands()[1];
    Poly y = a - Poly(t.monomial);
    Poly numerator = Poly(t.monomial.operands()[0]) + Poly(c) * y;
    Poly divisor = Poly(c) * b;
    if (numerator.overflow || divisor.overflow) continue;
    return floordiv(to_dim(numerator), to_dim(divisor));
  }
  return std::nullopt;
}

// (x % (b*m))//b  ->  (x//b) % m  for b > 0
std::optional<Dim> divide_remainder(Dim a, Dim b, DimProver& prover) {
  if (a.kind() != Kind::mod) return std::nullopt;
  auto m = divide_exactly(Poly(a.operands()[1]), Poly(b));
  if (!m || !prover.nonnegative(Poly(b)) || !prover.nonnegative(*m)) return std::nullopt;
  return mod(floordiv(a.operands()[0], b), to_dim(*m));
}

// (k*(x % m) + y) % b  ->  (k*x + y) % b  where b divides k*m
std::optional<Dim> open_inner_mod(const Poly& a, const Poly& b) {
  for (const PolyTerm& t : a.terms) {
    for (Dim atom : atoms_of(t.monomial)) {
      if (atom.kind() != Kind::mod) continue;
      Poly scale = Poly(*monomial_quotient(t.monomial, atom)) * Poly(t.coefficient);
      if (!divide_exactly(scale * Poly(atom.operands()[1]), b)) continue;
      Poly opened = a + scale * (Poly(atom.operands()[0]) - Poly(atom));
      if (!opened.overflow) return mod(to_dim(opened), to_dim(b));
    }
  }
  return std::nullopt;
}

Dim simplify(Want want, Dim a, Dim b) {
  if (auto c = b.as_const()) {
    if (*c == 0)
      fail(ErrorCode::invalid_argument, "division by zero in the size expression ", a,
           want == Want::quotient ? "//0" : " % 0");
    if (*c == 1) return want == Want::quotient ? a : Dim(0);
    if (auto v = a.as_const(); v && (*c != -1 || *v != INT64_MIN)) {
      return want == Want::quotient ? floor_div(*v, *c) : floor_mod(*v, *c);
    }
  }
  if (a == Dim(0)) return 0;
  Poly pa(a);
  Poly pb(b);
  std::int64_t lead = pb.is_const() ? pb.constant : pb.terms[0].coefficient;
  if (lead < 0) return want == Want::quotient ? floordiv(-a, -b) : -mod(-a, -b);

  PolyDivision d = divide(pa, pb);
  bool shorter = pb.size() == 1 || d.remainder.size() < pa.size();
  if (!d.quotient.overflow && !d.quotient.is_zero() && shorter) {
    Dim rest = again(want, to_dim(d.remainder), b);
    return want == Want::quotient ? to_dim(d.quotient) + rest : rest;
  }
  DimProver prover{a, b};
  if (b.range().lo >= 0) prover.assume_at_least_one(b);
  bool nonnegative = prover.nonnegative(pa);
  if (nonnegative && prover.less(pa, pb)) return want == Want::quotient ? Dim(0) : a;
  if (!nonnegative && prover.positive(-pa) && prover.nonnegative(pa + pb)) {
    return want == Want::quotient ? Dim(-1) : a + b;
  }
  if (auto r = drop_factor(want, pa, pb, prover)) return *r;
  if (want == Want::quotient) {
    if (auto r = merge_divisions(pa, pb, prover)) return *r;
    if (auto r = divide_remainder(a, b, prover)) return *r;
    return DimFactory::atom(Kind::floordiv, a, b);
  }
  if (auto r = open_inner_mod(pa, pb)) return *r;
  return DimFactory::atom(Kind::mod, a, b);
}

}  // namespace

Dim floordiv(Dim a, Dim b) {
  return OpCache::get(OpCache::Op::floordiv, a, b, [&] { return simplify(Want::quotient, a, b); });
}

Dim mod(Dim a, Dim b) {
  return OpCache::get(OpCache::Op::mod, a, b, [&] { return simplify(Want::remainder, a, b); });
}

}  // namespace gex
