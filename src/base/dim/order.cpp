// Order by content, and interval arithmetic.
#include <algorithm>

#include "base/dim/node.hpp"

namespace gex {

namespace {

using Kind = Dim::Kind;
constexpr std::int64_t kInf = DimRange::kInf;

template <class T>
int compare_values(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

// s2 before s10: a common prefix, then the number after it.
int compare_names(const std::string& a, const std::string& b) {
  auto digits_at = [](const std::string& s) {
    std::size_t i = s.size();
    while (i > 0 && s[i - 1] >= '0' && s[i - 1] <= '9') --i;
    return i;
  };
  std::size_t da = digits_at(a);
  std::size_t db = digits_at(b);
  if (da == db && a.size() != b.size() && a.compare(0, da, b, 0, db) == 0) {
    return compare_values(a.size(), b.size());
  }
  return a.compare(b);
}

// Symbols first, constants last: min(s0, 4) reads better than min(4, s0).
int rank(Kind k) {
  switch (k) {
    case Kind::symbol:
      return 0;
    case Kind::floordiv:
      return 1;
    case Kind::mod:
      return 2;
    case Kind::min:
      return 3;
    case Kind::max:
      return 4;
    case Kind::mul:
      return 5;
    case Kind::add:
      return 6;
    case Kind::constant:
      return 7;
  }
  return 8;
}

int compare_symbols(const DimNode& a, const DimNode& b) {
  if (int c = compare_names(a.name, b.name)) return c;
  if (int c = compare_values(a.extent != nullptr, b.extent != nullptr)) return c;
  if (a.extent) return compare_content(DimFactory::wrap(a.extent), DimFactory::wrap(b.extent));
  if (int c = compare_values(a.range.lo, b.range.lo)) return c;
  return compare_values(a.range.hi, b.range.hi);
}

int compare_lists(std::span<const Dim> a, std::span<const Dim> b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (int c = compare_content(a[i], b[i])) return c;
  }
  return compare_values(a.size(), b.size());
}

}  // namespace

int compare_content(Dim a, Dim b) {
  if (a == b) return 0;
  const DimNode& x = *a.node();
  const DimNode& y = *b.node();
  if (int c = compare_values(rank(x.kind), rank(y.kind))) return c;
  if (x.kind == Kind::constant) return compare_values(x.value, y.value);
  if (x.kind == Kind::symbol) return compare_symbols(x, y);
  return compare_lists(x.operands, y.operands);
}

bool content_less(Dim a, Dim b) { return compare_content(a, b) < 0; }

int compare_monomials(Dim a, Dim b) {
  if (a == b) return 0;
  auto x = atoms_of(a);
  auto y = atoms_of(b);
  if (x.size() != y.size()) return x.size() > y.size() ? -1 : 1;
  return compare_lists(x, y);
}

// A bound at -kInf (below) or kInf (above) means "none"; anything else is exact.

DimRange range_add(DimRange a, DimRange b) {
  DimRange r;
  if (a.lo > -kInf && b.lo > -kInf) r.lo = std::clamp(a.lo + b.lo, -kInf, kInf);
  if (a.hi < kInf && b.hi < kInf) r.hi = std::clamp(a.hi + b.hi, -kInf, kInf);
  return r;
}

namespace {

std::int64_t saturating_mul(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return (a < 0) == (b < 0) ? kInf : -kInf;
  bool infinite = std::abs(a) >= kInf || std::abs(b) >= kInf;
  if (infinite && r != 0) return r > 0 ? kInf : -kInf;
  return std::clamp(r, -kInf, kInf);
}

}  // namespace

DimRange range_mul(DimRange a, DimRange b) {
  std::int64_t p[] = {saturating_mul(a.lo, b.lo), saturating_mul(a.lo, b.hi),
                      saturating_mul(a.hi, b.lo), saturating_mul(a.hi, b.hi)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

DimRange range_scale(DimRange a, std::int64_t k) {
  k = std::clamp(k, -kInf, kInf);
  return range_mul(a, {k, k});
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  std::int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  std::int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

DimRange range_floordiv(DimRange a, DimRange b) {
  // The divisor is never 0, so one that can't be negative is at least 1.
  if (b.lo >= 0) {
    b.lo = std::max<std::int64_t>(b.lo, 1);
    b.hi = std::max(b.hi, b.lo);
    DimRange r;
    if (a.lo > -kInf) r.lo = a.lo >= 0 ? (b.hi >= kInf ? 0 : a.lo / b.hi) : floor_div(a.lo, b.lo);
    if (a.hi < kInf) r.hi = a.hi >= 0 ? a.hi / b.lo : (b.hi >= kInf ? -1 : floor_div(a.hi, b.hi));
    return r;
  }
  if (b.hi <= 0) return range_floordiv({-a.hi, -a.lo}, {-b.hi, -b.lo});
  std::int64_t m = std::max(std::abs(a.lo), std::abs(a.hi));
  return {-m, m};
}

DimRange range_mod(DimRange a, DimRange b) {
  if (b.lo >= 0) {
    DimRange r{0, b.hi >= kInf ? kInf : std::max<std::int64_t>(b.hi - 1, 0)};
    if (a.lo >= 0) r.hi = std::min(r.hi, a.hi);
    return r;
  }
  DimRange r;
  r.lo = b.lo <= -kInf ? -kInf : std::min<std::int64_t>(b.lo + 1, 0);
  r.hi = b.hi >= kInf ? kInf : std::max<std::int64_t>(b.hi - 1, 0);
  return r;
}

}  // namespace gex
