#pragma once
// Decides the signs of sums for every value of the symbols. Private to src/base/dim.
//
// Assumed inside a query: every index in it exists, so its extent is at least 1; no divisor in it
// is 0.

#include <cstdint>

#include "base/dim/poly.hpp"

namespace gex {

class DimProver {
 public:
  // Facts come from the indices and divisors of `query`.
  explicit DimProver(std::initializer_list<Dim> query);
  void assume_at_least_one(Dim d);

  bool nonnegative(const Poly& e);  // true: proven; false: not proven
  bool positive(const Poly& e) { return nonnegative(e - Poly(1)); }
  bool less(const Poly& a, const Poly& b) { return positive(b - a); }

 private:
  void collect_facts(Dim d);
  DimRange range_of(Dim atom) const;
  DimRange range_of(const Poly& e) const;
  bool prove(const Poly& e);  // nonnegative, with the remaining fuel
  bool decide(const Poly& e, std::vector<Dim>& opaque);
  bool eliminate(const Poly& e, Dim atom, std::vector<Dim>& opaque, bool& progressed);
  bool shifted_nonnegative(const Poly& e) const;
  struct Bounds;
  Bounds lower_bounds(Dim atom, const Poly& scale);
  Bounds upper_bounds(Dim atom, const Poly& scale);
  std::optional<Poly> largest(const Poly& x);

  std::vector<std::pair<Dim, std::int64_t>> at_least_;  // atoms with a tighter lower bound
  std::vector<const DimNode*> seen_;
  static constexpr int kFuel = 120;  // steps per query
  int fuel_ = 0;
};

}  // namespace gex
