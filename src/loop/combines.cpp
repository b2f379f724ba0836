#include "loop/combines.hpp"

#include <algorithm>
#include <limits>

#include "loop/scalar.hpp"

namespace gex::loop {

State combine_arg_extreme(ScalarBuilder& s, std::span<const Scalar> a, std::span<const Scalar> b,
                          bool largest) {
  Scalar beats = s.binary(largest ? Prim::gt : Prim::lt, b[0], a[0]);
  Scalar ties = s.binary(Prim::eq, b[0], a[0]);
  if (is_float(a[0].dtype)) {
    Scalar a_nan = s.unary(Prim::is_nan, a[0]);
    Scalar b_nan = s.unary(Prim::is_nan, b[0]);
    beats =
        s.select(a_nan, s.constant_int(DType::boolean, 0), s.binary(Prim::bit_or, beats, b_nan));
    ties = s.binary(Prim::bit_or, ties, s.logical_and(a_nan, b_nan));
  }
  Scalar earlier = s.logical_and(ties, s.binary(Prim::lt, b[1], a[1]));
  Scalar take = s.binary(Prim::bit_or, beats, earlier);
  return {s.select(take, b[0], a[0]), s.select(take, b[1], a[1])};
}

State combine_welford(ScalarBuilder& s, std::span<const Scalar> a, std::span<const Scalar> b) {
  DType d = a[0].dtype;
  Scalar count = s.add(a[2], b[2]);
  Scalar delta = s.sub(b[0], a[0]);
  Scalar empty = s.binary(Prim::eq, count, s.constant(d, 0));
  Scalar share = s.select(empty, s.constant(d, 0), s.div(b[2], count));
  Scalar mean = s.add(a[0], s.mul(delta, share));
  Scalar spread = s.mul(s.mul(delta, delta), s.mul(a[2], share));
  return {mean, s.add(s.add(a[1], b[1]), spread), count};
}

State combine_softmax(ScalarBuilder& s, std::span<const Scalar> a, std::span<const Scalar> b) {
  DType d = a[0].dtype;
  Scalar top = s.binary(Prim::max, a[0], b[0]);
  Scalar nothing = s.constant(d, -std::numeric_limits<double>::infinity());
  // -inf - -inf is NaN: if a side is all -inf and so is the maximum, its scale is 1.
  auto scale = [&](Scalar side) {
    Scalar same = s.logical_and(s.binary(Prim::eq, side, top), s.binary(Prim::eq, top, nothing));
    return s.select(same, s.constant(d, 1), s.unary(Prim::exp, s.sub(side, top)));
  };
  return {top, s.add(s.mul(a[1], scale(a[0])), s.mul(b[1], scale(b[0])))};
}

namespace {

constexpr NamedCombine kNamed[] = {
    {"sum", 1}, {"prod", 1},   {"max", 1},    {"min", 1},     {"any", 1},
    {"all", 1}, {"argmax", 2}, {"argmin", 2}, {"softmax", 2}, {"welford", 3},
};

Prim prim_of(std::string_view name) {
  if (name == "sum") return Prim::add;
  if (name == "prod") return Prim::mul;
  if (name == "max") return Prim::max;
  if (name == "min") return Prim::min;
  return name == "any" ? Prim::bit_or : Prim::bit_and;
}

State apply(ScalarBuilder& s, std::string_view name, std::span<const Scalar> a,
            std::span<const Scalar> b) {
  if (name == "argmax" || name == "argmin") return combine_arg_extreme(s, a, b, name == "argmax");
  if (name == "softmax") return combine_softmax(s, a, b);
  if (name == "welford") return combine_welford(s, a, b);
  return {s.binary(prim_of(name), a[0], b[0])};
}

bool fits(std::string_view name, std::span<const Accumulator> accs) {
  DType d = accs[0].dtype;
  if (name == "argmax" || name == "argmin") return is_int(accs[1].dtype);
  if (name == "softmax" || name == "welford") {
    for (const Accumulator& a : accs)
      if (a.dtype != d || !is_float(d)) return false;
    return true;
  }
  return accepts(prim_of(name), d);
}

}  // namespace

std::span<const NamedCombine> named_combines() { return kNamed; }

const NamedCombine* find_named_combine(std::string_view name) {
  for (const NamedCombine& c : kNamed)
    if (c.name == name) return &c;
  return nullptr;
}

bool rounds(const Reduction& reduction) {
  return std::ranges::any_of(reduction.combine.exprs, [](const Expr& e) {
    if (e.kind != Expr::Kind::prim || !is_float(e.dtype)) return false;
    switch (e.prim) {
      case Prim::min:
      case Prim::max:
      case Prim::select:
      case Prim::neg:
      case Prim::abs:
        return false;
      default:
        return true;
    }
  });
}

Combine widened(const Combine& combine) {
  Combine wide = combine;
  for (Expr& e : wide.exprs) e.dtype = widened(e.dtype);
  return wide;
}

std::optional<Combine> make_combine(std::span<const std::string_view> names,
                                    std::span<const Accumulator> accumulators) {
  Combine combine;
  ScalarBuilder s(combine.exprs);
  std::size_t slot = 0;
  for (std::string_view name : names) {
    const NamedCombine* named = find_named_combine(name);
    auto count = static_cast<std::size_t>(named ? named->slots : 0);
    if (!named || slot + count > accumulators.size()) return std::nullopt;
    auto accs = accumulators.subspan(slot, count);
    if (!fits(name, accs)) return std::nullopt;
    State a, b;
    for (std::size_t i = 0; i < count; ++i) {
      a.push_back(s.lhs(static_cast<int>(slot + i), accs[i].dtype));
      b.push_back(s.rhs(static_cast<int>(slot + i), accs[i].dtype));
    }
    for (Scalar r : apply(s, name, a, b)) combine.results.push_back(r.id);
    slot += count;
  }
  if (slot != accumulators.size()) return std::nullopt;
  return combine;
}

}  // namespace gex::loop
