#include "cache/access_bounds.hpp"

#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace gex {

namespace {

using loop::Expr;
using loop::ExprId;
using loop::Prim;

// Both ends included.
struct Interval {
  Dim low, high;
};

// Limit on nested case splits over minima, maxima and divisions in one proof.
constexpr int kDeepestSplit = 5;
// Limit on the number of facts combined in one proof.
constexpr int kMostFacts = 2;

Dim replaced(Dim d, Dim what, Dim by) {
  if (d == what) return by;
  const auto part = [&](std::size_t k) { return replaced(d.operands()[k], what, by); };
  switch (d.kind()) {
    case Dim::Kind::constant:
      return d;
    case Dim::Kind::symbol:
      return d.extent() ? Dim::index(d.name(), replaced(*d.extent(), what, by)) : d;
    case Dim::Kind::add: {
      Dim sum;
      for (Dim operand : d.operands()) sum += replaced(operand, what, by);
      return sum;
    }
    case Dim::Kind::mul: {
      Dim product(1);
      for (Dim operand : d.operands()) product *= replaced(operand, what, by);
      return product;
    }
    case Dim::Kind::floordiv:
      return floordiv(part(0), part(1));
    case Dim::Kind::mod:
      return mod(part(0), part(1));
    case Dim::Kind::min:
      return min(part(0), part(1));
    case Dim::Kind::max:
      return max(part(0), part(1));
  }
  return d;
}

// An innermost minimum or maximum in d.
std::optional<Dim> choice_in(Dim d) {
  if (d.is_const() || d.is_symbol()) return std::nullopt;
  for (Dim operand : d.operands())
    if (const auto found = choice_in(operand)) return found;
  const bool is_choice = d.kind() == Dim::Kind::min || d.kind() == Dim::Kind::max;
  return is_choice ? std::optional(d) : std::nullopt;
}

// A quotient among the summands with coefficient 1 or -1: d = factor * quotient + rest.
struct Quotient {
  Dim quotient, rest;
  int factor;
};
std::optional<Quotient> quotient_in(Dim d) {
  const auto matches = [&](Dim term) -> std::optional<Quotient> {
    if (term.kind() == Dim::Kind::floordiv) return Quotient{term, d - term, 1};
    const Dim negated = -term;
    if (negated.kind() == Dim::Kind::floordiv) return Quotient{negated, d - term, -1};
    return std::nullopt;
  };
  if (d.kind() != Dim::Kind::add) return matches(d);
  for (Dim term : d.operands())
    if (const auto found = matches(term)) return found;
  return std::nullopt;
}

// The terms of a sum without their coefficients, each with its coefficient.
std::vector<std::pair<Dim, std::int64_t>> terms_of(Dim d) {
  std::vector<std::pair<Dim, std::int64_t>> terms;
  const auto add = [&](Dim term) {
    std::int64_t factor = 1;
    if (term.kind() == Dim::Kind::mul && term.operands()[0].is_const())
      factor = term.operands()[0].constant();
    Dim rest(1);
    if (factor == 1) rest = term;
    if (factor != 1)
      for (Dim operand : term.operands().subspan(1)) rest *= operand;
    if (!term.is_const()) terms.emplace_back(rest, factor);
  };
  if (d.kind() != Dim::Kind::add) add(d);
  if (d.kind() == Dim::Kind::add)
    for (Dim term : d.operands()) add(term);
  return terms;
}

// Whether d is a sum of multiples of at most `most` facts and something nonnegative. Only facts
// that cancel a term of d are tried.
bool follows(Dim d, const Facts& facts, int most) {
  if (provably_nonnegative(d)) return true;
  if (most == 0) return false;
  const auto terms = terms_of(d);
  for (Dim fact : facts)
    for (const auto& [term, times] : terms_of(fact))
      for (const auto& [own, own_times] : terms) {
        if (!(own == term) || (own_times > 0) != (times > 0)) continue;
        const std::int64_t common = std::gcd(own_times, times);
        const Dim rest =
            d * Dim(std::abs(times) / common) - fact * Dim(std::abs(own_times) / common);
        if (follows(rest, facts, most - 1)) return true;
      }
  return false;
}

bool surely_nonnegative(Dim d, const Facts& facts, int depth) {
  if (provably_nonnegative(d)) return true;
  for (Dim fact : facts) {
    // Offsets in bytes are multiples of the element sizes in which sizes are compared.
    for (std::int64_t times : {1, 2, 4, 8})
      if (provably_nonnegative(d - fact * Dim(times))) return true;
    if (provably_nonnegative(d * Dim(2) - fact)) return true;
  }
  if (follows(d, facts, kMostFacts)) return true;
  if (depth == 0) return false;
  for (Dim fact : facts)
    if (quotient_in(d - fact) && surely_nonnegative(d - fact, {}, depth - 1)) return true;
  if (const auto choice = choice_in(d)) {
    // Each operand, under the condition that it is selected.
    const Dim a = choice->operands()[0], b = choice->operands()[1];
    const Dim excess = choice->kind() == Dim::Kind::max ? a - b : b - a;
    const auto holds_with = [&](Dim taken, Dim fact) {
      Facts more;
      for (Dim known : facts) more.push_back(replaced(known, *choice, taken));
      more.push_back(fact);
      return surely_nonnegative(replaced(d, *choice, taken), more, depth - 1);
    };
    return holds_with(a, excess) && holds_with(b, -excess);
  }
  if (const auto found = quotient_in(d)) {
    const Dim a = found->quotient.operands()[0], b = found->quotient.operands()[1];
    if (!provably_nonnegative(b - 1)) return false;
    // a//b >= -rest means a >= -rest*b; a//b <= rest means a < (rest + 1)*b.
    const Dim multiplied = found->factor > 0 ? a + found->rest * b : (found->rest + 1) * b - a - 1;
    return surely_nonnegative(multiplied, facts, depth - 1);
  }
  return false;
}

// The symbols whose product is `extent`, if it is a product; all are positive where it is.
void add_factors(Dim extent, std::vector<Dim>& out) {
  if (extent.is_symbol() && !extent.extent()) out.push_back(extent);
  if (extent.kind() == Dim::Kind::mul)
    for (Dim factor : extent.operands()) add_factors(factor, out);
}

// A stage of a kernel over the sizes of a launch. At a point of its loops each extent is at least
// 1, so symbols that are extents are replaced by symbols that can't be 0.
class StageProof {
 public:
  StageProof(const loop::Kernel& kernel, const loop::Stage& stage, std::span<const Dim> dims,
             std::span<const Dim> bytes, const Facts& facts)
      : kernel_(kernel), stage_(stage), bytes_(bytes) {
    const std::vector<Dim> symbols = kernel.symbols();
    for (std::size_t k = 0; k < symbols.size(); ++k) sizes_.emplace(symbols[k].name(), dims[k]);
    find_positive_sizes();
    for (Dim fact : facts) facts_.push_back(with_positive_sizes(fact));
  }

  void run(std::vector<std::string>& problems) {
    if (never_runs()) return;
    for (std::size_t id = 0; id < stage_.exprs.size(); ++id) {
      const Expr& e = stage_.exprs[id];
      if (e.kind == Expr::Kind::load && !inside(e.buffer, e.index, e.pred))
        problems.push_back(describe("load of ", e.buffer, e.index));
    }
    for (const loop::Store& s : stage_.stores)
      if (!inside(s.buffer, s.index, s.pred))
        problems.push_back(describe("store to ", s.buffer, s.index));
  }

 private:
  const Expr& expr(ExprId id) const { return stage_.exprs[static_cast<std::size_t>(id)]; }
  const loop::Buffer& buffer(int id) const { return kernel_.buffers[static_cast<std::size_t>(id)]; }

  std::string describe(const char* what, int id, const std::vector<Dim>& index) const {
    std::string at;
    for (Dim d : index) at += str(at.empty() ? "" : ", ", d);
    return str("kernel \"", kernel_.name, "\", stage \"", stage_.name, "\": the ", what,
               buffer(id).name, "[", at, "] may be outside its memory");
  }

  bool never_runs() {
    for (const auto* loops : {&kernel_.grid, &stage_.domain, &stage_.reduce})
      for (const loop::Range& range : *loops)
        if (known_le(over_launch(range.extent()), Dim(0)) == true) return true;
    return false;
  }

  void find_positive_sizes() {
    std::vector<Dim> sizes;
    for (const auto* loops : {&kernel_.grid, &stage_.domain, &stage_.reduce})
      for (const loop::Range& range : *loops) add_factors(over_launch(range.extent()), sizes);
    for (Dim size : sizes) {
      const DimRange range = size.range();
      if (range.lo == 0) positive_.emplace(size.name(), Dim::symbol(size.name(), {1, range.hi}));
    }
  }

  Dim with_positive_sizes(Dim d) const {
    return d.substitute([&](Dim symbol) -> std::optional<Dim> {
      const auto at = symbol.extent() ? positive_.end() : positive_.find(symbol.name());
      return at == positive_.end() ? std::nullopt : std::optional(at->second);
    });
  }

  // A size of the kernel in terms of the launch's sizes.
  Dim over_launch(Dim d) {
    return with_positive_sizes(d.substitute([&](Dim symbol) -> std::optional<Dim> {
      if (const auto extent = symbol.extent())
        return Dim::index(symbol.name(), over_launch(*extent));
      if (const auto id = loop::value_symbol_id(symbol)) return value(*id);
      const auto at = sizes_.find(symbol.name());
      return at == sizes_.end() ? std::nullopt : std::optional(at->second);
    }));
  }

  // A computed index: a symbol with the range of its expression, whatever range the text claims.
  Dim value(ExprId id) {
    const auto known = values_.find(id);
    if (known != values_.end()) return known->second;
    const std::string name = str("value.", id);
    Dim result = Dim::symbol(name, {});
    if (const std::optional<Interval> range = interval(id))
      result = range->low + Dim::index(name, range->high - range->low + 1);
    values_.emplace(id, result);
    return result;
  }

  std::optional<Interval> interval(ExprId id) {
    const Expr& e = expr(id);
    switch (e.kind) {
      case Expr::Kind::constant:
        if (!is_int(e.dtype)) return std::nullopt;
        return Interval{Dim(e.imm_int), Dim(e.imm_int)};
      case Expr::Kind::index: {
        const Dim d = over_launch(e.dim);
        return Interval{d, d};
      }
      case Expr::Kind::cast: {
        // Only conversions to a wider type keep the value.
        const DType from = expr(e.args[0]).dtype;
        if (from == DType::boolean) return Interval{Dim(0), Dim(1)};
        if (!is_int(from) || size_of(from) > size_of(e.dtype)) return std::nullopt;
        return from == DType::u8 ? Interval{Dim(0), Dim(255)} : interval(e.args[0]);
      }
      case Expr::Kind::prim:
        return interval_of_prim(e);
      default:
        return std::nullopt;
    }
  }

  std::optional<Interval> interval_of_prim(const Expr& e) {
    const auto arg = [&](std::size_t k) { return interval(e.args[k]); };
    if (e.prim == Prim::min || e.prim == Prim::max) {
      const auto a = arg(0), b = arg(1);
      if (a && b)
        return e.prim == Prim::min ? Interval{min(a->low, b->low), min(a->high, b->high)}
                                   : Interval{max(a->low, b->low), max(a->high, b->high)};
      return clamped(e);
    }
    if (e.prim == Prim::select) {
      const auto a = arg(1), b = arg(2);
      if (a && b) return Interval{min(a->low, b->low), max(a->high, b->high)};
    }
    if (e.prim == Prim::add || e.prim == Prim::sub) {
      const auto a = arg(0), b = arg(1);
      if (a && b && e.prim == Prim::add) return Interval{a->low + b->low, a->high + b->high};
      if (a && b) return Interval{a->low - b->high, a->high - b->low};
    }
    return std::nullopt;
  }

  // min(max(x, low), high) of an unknown x, in either order.
  std::optional<Interval> clamped(const Expr& outer) {
    for (std::size_t k = 0; k < 2; ++k) {
      const auto bound = interval(outer.args[k]);
      const Expr& inner = expr(outer.args[1 - k]);
      const Prim other = outer.prim == Prim::min ? Prim::max : Prim::min;
      if (!bound || inner.kind != Expr::Kind::prim || inner.prim != other) continue;
      for (std::size_t j = 0; j < 2; ++j) {
        const auto inner_bound = interval(inner.args[j]);
        if (!inner_bound) continue;
        if (outer.prim == Prim::min)
          return Interval{min(inner_bound->low, bound->low), bound->high};
        return Interval{bound->low, max(inner_bound->high, bound->high)};
      }
    }
    return std::nullopt;
  }

  // The value of an integer expression as a Dim.
  std::optional<Dim> as_dim(ExprId id) {
    const Expr& e = expr(id);
    if (e.kind == Expr::Kind::index) return over_launch(e.dim);
    if (e.kind == Expr::Kind::constant && is_int(e.dtype)) return Dim(e.imm_int);
    return is_int(e.dtype) ? std::optional(value(id)) : std::nullopt;
  }

  void add_conditions(ExprId id, Facts& out) {
    const Expr& e = expr(id);
    if (e.kind != Expr::Kind::prim) return;
    if ((e.prim == Prim::bit_and || e.prim == Prim::mul) && e.dtype == DType::boolean)
      for (ExprId arg : e.args) add_conditions(arg, out);
    const bool compares =
        e.prim == Prim::lt || e.prim == Prim::le || e.prim == Prim::gt || e.prim == Prim::ge;
    if (!compares) return;
    const auto a = as_dim(e.args[0]), b = as_dim(e.args[1]);
    if (!a || !b) return;
    if (e.prim == Prim::lt) out.push_back(*b - *a - 1);
    if (e.prim == Prim::le) out.push_back(*b - *a);
    if (e.prim == Prim::gt) out.push_back(*a - *b - 1);
    if (e.prim == Prim::ge) out.push_back(*a - *b);
  }

  bool inside(int id, const std::vector<Dim>& index, ExprId pred) {
    Facts facts = facts_;
    if (pred != loop::kNoExpr) add_conditions(pred, facts);
    const loop::Buffer& b = buffer(id);
    const bool local = b.role == loop::Buffer::Role::local;
    const Dim width(static_cast<std::int64_t>(size_of(b.dtype)));
    Dim room;
    if (local) {
      room = over_launch(product(b.shape)) * width;
    } else {
      room = with_positive_sizes(bytes_[static_cast<std::size_t>(id)]);
    }
    const std::vector<Dim> strides = loop::strides_of(b);
    Dim offset;
    std::vector<Dim> at;
    for (std::size_t d = 0; d < index.size(); ++d) {
      at.push_back(over_launch(index[d]));
      offset += at[d] * over_launch(strides[d]);
    }
    if (surely_le(Dim(0), offset, facts) && surely_le(offset * width + width, room, facts))
      return true;
    return inside_each_axis(b, at, strides, room, width, facts);
  }

  bool inside_each_axis(const loop::Buffer& b, const std::vector<Dim>& at,
                        const std::vector<Dim>& strides, Dim room, Dim width, const Facts& facts) {
    Dim last;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const Dim size = over_launch(b.shape[d]), stride = over_launch(strides[d]);
      if (!surely_le(Dim(0), stride, facts)) return false;
      if (!surely_le(Dim(0), at[d], facts) || !surely_le(at[d], size - 1, facts)) return false;
      last += (size - 1) * stride;
    }
    return surely_le(last * width + width, room, facts);
  }

  const loop::Kernel& kernel_;
  const loop::Stage& stage_;
  const std::span<const Dim> bytes_;
  std::map<std::string, Dim> sizes_, positive_;
  std::map<ExprId, Dim> values_;
  Facts facts_;
};

}  // namespace

bool surely_le(Dim lower, Dim upper, const Facts& facts) {
  if (known_le(lower, upper) == true) return true;
  return surely_nonnegative(upper - lower, facts, kDeepestSplit);
}

std::vector<std::string> unproven_accesses(const loop::Kernel& kernel, std::span<const Dim> dims,
                                           std::span<const Dim> bytes, const Facts& facts) {
  GEX_CHECK(dims.size() == kernel.symbols().size(), "dims of another kernel");
  GEX_CHECK(static_cast<int>(bytes.size()) == kernel.num_params(), "buffers of another kernel");
  std::vector<std::string> problems;
  for (const loop::Stage& stage : kernel.stages)
    StageProof(kernel, stage, dims, bytes, facts).run(problems);
  return problems;
}

}  // namespace gex
