// The proof search: eliminates one index, division, min or max after the other by substituting its
// bound, until interval arithmetic decides. Fuel bounds each query separately, so a query always
// ends and its answer never depends on earlier queries.
#include "base/dim/prove.hpp"

#include <algorithm>

namespace gex {

using Kind = Dim::Kind;

// Lower bounds of scale*atom: one that works is enough, or (`all`) each has to work.
struct DimProver::Bounds {
  std::vector<Poly> options;
  bool all = false;
};

DimProver::DimProver(std::initializer_list<Dim> query) {
  for (Dim d : query) collect_facts(d);
}

void DimProver::collect_facts(Dim d) {
  const DimNode* n = d.node();
  if (!n->needs_facts || std::ranges::count(seen_, n)) return;
  seen_.push_back(n);
  if (n->extent) {
    assume_at_least_one(DimFactory::wrap(n->extent));
    collect_facts(DimFactory::wrap(n->extent));
  }
  if (n->kind == Kind::floordiv || n->kind == Kind::mod) {
    if (n->operands[1].range().lo >= 0) assume_at_least_one(n->operands[1]);
  }
  for (Dim operand : n->operands) collect_facts(operand);
}

void DimProver::assume_at_least_one(Dim d) {
  Poly p(d);
  if (p.terms.size() != 1 || p.terms[0].coefficient <= 0) return;
  auto atoms = atoms_of(p.terms[0].monomial);
  std::int64_t low = 1;
  if (p.constant != 0) {
    // k*s + c >= 1 says s >= ceil((1 - c)/k), but nothing about the factors of a product.
    if (atoms.size() != 1 || p.constant < -DimRange::kInf || p.constant > DimRange::kInf) return;
    low = -floor_div(p.constant - 1, p.terms[0].coefficient);
  } else if (std::ranges::any_of(atoms, [](Dim a) { return a.range().lo < 0; }) &&
             atoms.size() != 1) {
    return;
  }
  for (Dim atom : atoms) {
    if (range_of(atom).lo >= low) continue;
    std::erase_if(at_least_, [&](const auto& fact) { return fact.first == atom; });
    at_least_.emplace_back(atom, low);
  }
}

DimRange DimProver::range_of(Dim atom) const {
  DimRange r = atom.range();
  for (const auto& [known, low] : at_least_) {
    if (known == atom) r.lo = std::max(r.lo, low);
  }
  r.hi = std::max(r.hi, r.lo);
  return r;
}

DimRange DimProver::range_of(const Poly& e) const {
  std::int64_t c = std::clamp(e.constant, -DimRange::kInf, DimRange::kInf);
  DimRange sum{c, c};
  for (const PolyTerm& t : e.terms) {
    DimRange product{1, 1};
    for (Dim atom : atoms_of(t.monomial)) product = range_mul(product, range_of(atom));
    sum = range_add(sum, range_scale(product, t.coefficient));
  }
  return sum;
}

bool DimProver::nonnegative(const Poly& e) {
  fuel_ = kFuel;
  return prove(e);
}

bool DimProver::prove(const Poly& e) {
  std::vector<Dim> opaque;
  return decide(e, opaque);
}

bool DimProver::decide(const Poly& e, std::vector<Dim>& opaque) {
  if (e.overflow || --fuel_ < 0) return false;
  DimRange r = range_of(e);
  if (r.lo >= 0) return true;
  if (r.hi < 0) return false;
  std::vector<Dim> candidates;
  for (const PolyTerm& t : e.terms) {
    for (Dim atom : atoms_of(t.monomial)) {
      bool bounded = atom.kind() != Kind::symbol || atom.extent();
      if (bounded && !std::ranges::count(opaque, atom) && !std::ranges::count(candidates, atom)) {
        candidates.push_back(atom);
      }
    }
  }
  if (candidates.empty()) return shifted_nonnegative(e);
  // Case splits lose nothing and come first. Atoms that depend on an index come before that index,
  // and sizes come last: a bound substituted early can still cancel with later terms.
  auto splits_cases = [&](Dim atom) {
    if (atom.kind() != Kind::min && atom.kind() != Kind::max) return false;
    auto term = std::ranges::find_if(e.terms, [&](const PolyTerm& t) {
      return monomial_quotient(t.monomial, atom).has_value();
    });
    return (term->coefficient > 0) == (atom.kind() == Kind::min);
  };
  auto in_an_extent = [&](Dim index) {
    return std::ranges::any_of(candidates, [&](Dim other) {
      auto extent = other.extent();
      return extent && extent->depends_on(index);
    });
  };
  auto turn = [&](Dim atom) {
    if (splits_cases(atom)) return -1;
    if (!atom.is_symbol()) return atom.node()->has_index ? 0 : 3;
    return in_an_extent(atom) ? 2 : 1;
  };
  Dim atom = *std::ranges::min_element(candidates, {}, turn);
  bool progressed = false;
  if (eliminate(e, atom, opaque, progressed)) return true;
  if (progressed) return false;
  // The sign of its factor is unknown: treat the atom as an unknown value in its range.
  opaque.push_back(atom);
  bool proven = decide(e, opaque);
  opaque.pop_back();
  return proven;
}

bool DimProver::eliminate(const Poly& e, Dim atom, std::vector<Dim>& opaque, bool& progressed) {
  Poly factor;
  Poly rest(e.constant);
  for (const PolyTerm& t : e.terms) {
    auto cofactor = monomial_quotient(t.monomial, atom);
    if (cofactor) {
      factor.add(Poly(*cofactor), t.coefficient);
    } else {
      rest.terms.push_back(t);
    }
  }
  auto try_bounds = [&](const Poly& base, const Bounds& bounds) {
    if (bounds.options.empty()) return false;
    progressed = true;
    auto works = [&](const Poly& bound) { return decide(base + bound, opaque); };
    return bounds.all ? std::ranges::all_of(bounds.options, works)
                      : std::ranges::any_of(bounds.options, works);
  };
  if (decide(factor, opaque)) return try_bounds(rest, lower_bounds(atom, factor));
  if (decide(-factor, opaque)) return try_bounds(rest, upper_bounds(atom, factor));
  // Mixed signs: bound the positive and the negative part of the factor separately.
  Poly rising(std::max<std::int64_t>(factor.constant, 0));
  Poly falling(std::min<std::int64_t>(factor.constant, 0));
  for (const PolyTerm& t : factor.terms) {
    for (Dim a : atoms_of(t.monomial)) {
      if (range_of(a).lo < 0) return false;
    }
    (t.coefficient > 0 ? rising : falling).terms.push_back(t);
  }
  Bounds low = lower_bounds(atom, rising);
  if (low.options.empty() || low.all) return false;
  return try_bounds(rest + low.options.front(), upper_bounds(atom, falling));
}

// scale >= 0: a lower bound of scale*atom.
DimProver::Bounds DimProver::lower_bounds(Dim atom, const Poly& scale) {
  Bounds out;
  std::int64_t lo = range_of(atom).lo;
  auto times = [&](const Poly& p) { return scale * p; };
  switch (atom.kind()) {
    case Kind::symbol:
      out.options = {times(Poly(lo))};
      break;
    case Kind::mod:
      if (lo > -DimRange::kInf) {
        out.options = {times(Poly(lo))};
      } else if (prove(Poly(atom.operands()[1]) - Poly(1))) {
        out.options = {Poly(0)};
      }
      break;
    case Kind::floordiv: {
      Poly x(atom.operands()[0]);
      Poly b(atom.operands()[1]);
      if (prove(b - Poly(1))) {
        // b*(x//b) >= x - (b - 1)
        auto m = divide_exactly(scale, b);
        if (m && prove(*m)) out.options.push_back(*m * (x - b + Poly(1)));
        if (lo < 0 && prove(x)) lo = 0;
      }
      if (lo > -DimRange::kInf) out.options.push_back(times(Poly(lo)));
      break;
    }
    case Kind::min:
      out.all = true;
      [[fallthrough]];
    case Kind::max:
      out.options = {times(Poly(atom.operands()[0])), times(Poly(atom.operands()[1]))};
      break;
    default:
      break;
  }
  return out;
}

// scale <= 0: a lower bound of scale*atom.
DimProver::Bounds DimProver::upper_bounds(Dim atom, const Poly& scale) {
  Bounds out;
  std::int64_t hi = range_of(atom).hi;
  auto times = [&](const Poly& p) { return scale * p; };
  switch (atom.kind()) {
    case Kind::symbol:
      out.options = {times(Poly(*atom.extent()) - Poly(1))};
      break;
    case Kind::mod: {
      Poly x(atom.operands()[0]);
      Poly b(atom.operands()[1]);
      if (prove(b - Poly(1))) {
        out.options.push_back(times(b - Poly(1)));
        if (prove(x)) out.options.push_back(times(x));
      }
      break;
    }
    case Kind::floordiv: {
      Poly x(atom.operands()[0]);
      Poly b(atom.operands()[1]);
      if (prove(b - Poly(1))) {
        // b*(x//b) <= x
        auto m = divide_exactly(-scale, b);
        if (m && prove(*m)) out.options.push_back(-(*m * x));
        // x <= q*b + r gives x//b <= q + r//b, and r//b is 0 where 0 <= r < b.
        if (auto most = largest(x)) {
          PolyDivision d = divide(*most, b);
          bool fits = prove(d.remainder) && prove(b - d.remainder - Poly(1));
          if (!fits) {
            Dim rest = DimFactory::atom(Kind::floordiv, to_dim(d.remainder), atom.operands()[1]);
            d.quotient.add(Poly(rest));
          }
          out.options.push_back(times(d.quotient));
        }
        if (prove(x)) out.options.push_back(times(x));
      }
      break;
    }
    case Kind::max:
      out.all = true;
      [[fallthrough]];
    case Kind::min:
      out.options = {times(Poly(atom.operands()[0])), times(Poly(atom.operands()[1]))};
      return out;
    default:
      break;
  }
  if (hi < DimRange::kInf && atom.kind() != Kind::symbol) out.options.push_back(times(Poly(hi)));
  return out;
}

// x with every index at the end of its range where x is largest; nothing if there is no index or a
// direction is unknown.
std::optional<Poly> DimProver::largest(const Poly& x) {
  Poly e = x;
  for (int round = 0; round < 16; ++round) {
    std::optional<Dim> index;
    for (const PolyTerm& t : e.terms) {
      for (Dim atom : atoms_of(t.monomial)) {
        if (atom.extent()) index = atom;
      }
    }
    if (!index) return e.overflow || round == 0 ? std::nullopt : std::optional(e);
    Poly factor;
    Poly rest(e.constant);
    for (const PolyTerm& t : e.terms) {
      auto cofactor = monomial_quotient(t.monomial, *index);
      if (cofactor) {
        factor.add(Poly(*cofactor), t.coefficient);
      } else {
        rest.terms.push_back(t);
      }
    }
    if (prove(factor)) {
      e = rest + factor * (Poly(*index->extent()) - Poly(1));
    } else if (prove(-factor)) {
      e = rest;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// Writes every atom as an offset from its lower bound (s = 2 + s'), so that products of such atoms
// cancel: s0*s1 - s0 with s1 >= 1 is s0*s1' >= 0.
bool DimProver::shifted_nonnegative(const Poly& e) const {
  Poly shifted(e.constant);
  for (const PolyTerm& t : e.terms) {
    Poly product(t.coefficient);
    for (Dim atom : atoms_of(t.monomial)) {
      DimRange r = range_of(atom);
      Poly counted(atom);
      if (r.lo > -DimRange::kInf) counted.constant = r.lo;
      product = product * counted;
    }
    shifted.add(product);
  }
  if (shifted.overflow) return false;
  std::int64_t c = std::clamp(shifted.constant, -DimRange::kInf, DimRange::kInf);
  DimRange sum{c, c};
  for (const PolyTerm& t : shifted.terms) {
    DimRange product{1, 1};
    for (Dim atom : atoms_of(t.monomial)) {
      DimRange r = range_of(atom);
      if (r.lo > -DimRange::kInf) r = {0, r.hi >= DimRange::kInf ? DimRange::kInf : r.hi - r.lo};
      product = range_mul(product, r);
    }
    sum = range_add(sum, range_scale(product, t.coefficient));
  }
  return sum.lo >= 0;
}

}  // namespace gex
