// Decisions that hold for every value of the symbols.
#include "base/dim/prove.hpp"

namespace gex {

namespace {

// x, x//b and x % b are related by x = b*(x//b) + x % b, so a sum of the three may be constant in a
// form that does not show it. Eliminating every mod shows it.
std::optional<std::int64_t> constant_without_mods(Poly sum) {
  for (int step = 0; step < 16; ++step) {
    if (sum.overflow) return std::nullopt;
    std::optional<Dim> found;
    for (const PolyTerm& t : sum.terms) {
      for (Dim atom : atoms_of(t.monomial)) {
        if (atom.kind() == Dim::Kind::mod) found = atom;
      }
    }
    if (!found && sum.is_const()) return sum.constant;
    if (!found) return std::nullopt;
    Dim x = found->operands()[0];
    Dim b = found->operands()[1];
    Poly unfolded = Poly(x) - Poly(b) * Poly(floordiv(x, b)) - Poly(*found);
    for (const PolyTerm& t : Poly(sum).terms) {
      auto factor = monomial_quotient(t.monomial, *found);
      if (factor) sum.add(Poly(*factor) * unfolded, t.coefficient);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<bool> known_le(Dim a, Dim b) {
  if (a == b) return true;
  DimRange x = a.range();
  DimRange y = b.range();
  if (x.hi <= y.lo && x.hi < DimRange::kInf && y.lo > -DimRange::kInf) return true;
  if (y.hi < x.lo && y.hi < DimRange::kInf && x.lo > -DimRange::kInf) return false;
  Poly difference = Poly(b) - Poly(a);
  if (difference.overflow) return std::nullopt;
  if (difference.is_const()) return difference.constant >= 0;
  if (auto constant = constant_without_mods(difference)) return *constant >= 0;
  if (DimProver{a, b}.nonnegative(difference)) return true;
  if (DimProver{a, b}.positive(-difference)) return false;
  return std::nullopt;
}

std::optional<bool> known_lt(Dim a, Dim b) {
  auto reversed = known_le(b, a);
  return reversed ? std::optional(!*reversed) : std::nullopt;
}

std::optional<bool> known_eq(Dim a, Dim b) {
  if (a == b) return true;
  auto le = known_le(a, b);
  if (le == false) return false;
  auto ge = known_le(b, a);
  if (ge == false) return false;
  if (le == true && ge == true) return true;
  return std::nullopt;
}

bool provably_eq(Dim a, Dim b) { return known_eq(a, b) == true; }

bool provably_nonnegative(Dim a) { return known_le(Dim(0), a) == true; }

}  // namespace gex
