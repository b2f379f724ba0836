#include "base/dim/dim.hpp"

#include <algorithm>

#include "base/dim/poly.hpp"
#include "base/error.hpp"

namespace gex {

namespace {

using Kind = Dim::Kind;

bool is_name(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0]) || name == "min" || name == "max") return false;
  return std::ranges::all_of(
      name, [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.'; });
}

void check_name(std::string_view name) {
  if (is_name(name)) return;
  fail(ErrorCode::invalid_argument, "'", name,
       "' can't name a size: use letters, digits, '_' and '.', starting with a letter, and "
       "neither 'min' nor 'max'");
}

}  // namespace

Dim::Dim(std::int64_t value) : Dim(DimFactory::constant(value)) {}

Dim Dim::symbol(std::string_view name, DimRange range) {
  check_name(name);
  if (range.lo > range.hi) {
    fail(ErrorCode::invalid_argument, "the range of ", name, " is empty: ", range.lo, " to ",
         range.hi);
  }
  range.lo = std::clamp(range.lo, -DimRange::kInf, DimRange::kInf);
  range.hi = std::clamp(range.hi, -DimRange::kInf, DimRange::kInf);
  return DimFactory::symbol(name, range, nullptr);
}

Dim Dim::index(std::string_view name, Dim extent) {
  check_name(name);
  std::int64_t hi = extent.range().hi;
  DimRange range{0, hi >= DimRange::kInf ? DimRange::kInf : std::max<std::int64_t>(hi - 1, 0)};
  return DimFactory::symbol(name, range, extent.node());
}

Dim::Kind Dim::kind() const { return node_->kind; }

std::optional<std::int64_t> Dim::as_const() const {
  if (!is_const()) return std::nullopt;
  return node_->value;
}

std::int64_t Dim::constant() const {
  GEX_CHECK(is_const(), "not a constant: ", text());
  return node_->value;
}

const std::string& Dim::name() const {
  GEX_CHECK(is_symbol(), "not a symbol: ", text());
  return node_->name;
}

std::optional<Dim> Dim::extent() const {
  if (!node_->extent) return std::nullopt;
  return Dim(node_->extent);
}

std::span<const Dim> Dim::operands() const { return node_->operands; }

DimRange Dim::range() const { return node_->range; }

Hash Dim::hash() const { return node_->hash; }

Dim operator+(Dim a, Dim b) {
  return OpCache::get(OpCache::Op::add, a, b, [&] {
    Poly sum(a);
    sum.add(Poly(b));
    return to_dim(std::move(sum));
  });
}

Dim operator-(Dim a, Dim b) {
  return OpCache::get(OpCache::Op::sub, a, b, [&] {
    Poly sum(a);
    sum.add(Poly(b), -1);
    return to_dim(std::move(sum));
  });
}

Dim operator*(Dim a, Dim b) {
  return OpCache::get(OpCache::Op::mul, a, b, [&] { return to_dim(Poly(a) * Poly(b)); });
}

Dim operator-(Dim a) { return Dim(0) - a; }

Dim product(std::span<const Dim> dims) {
  Dim result(1);
  for (Dim d : dims) result *= d;
  return result;
}

bool Dim::depends_on(Dim symbol) const {
  if (*this == symbol) return true;
  if (symbol.node_->symbol_mask & ~node_->symbol_mask) return false;
  return std::ranges::any_of(node_->operands, [&](Dim d) { return d.depends_on(symbol); });
}

void Dim::collect_symbols(std::vector<Dim>& out) const {
  if (is_symbol()) {
    if (!std::ranges::count(out, *this)) out.push_back(*this);
    return;
  }
  for (Dim d : node_->operands) d.collect_symbols(out);
}

namespace {

using Replace = std::function<std::optional<Dim>(Dim symbol)>;
using Done = std::unordered_map<const DimNode*, Dim>;

Dim rebuild(Dim d, const Replace& replace, Done& done) {
  if (d.is_const()) return d;
  if (auto at = done.find(d.node()); at != done.end()) return at->second;
  Dim result = d;
  auto operands = d.operands();
  auto part = [&](std::size_t i) { return rebuild(operands[i], replace, done); };
  switch (d.kind()) {
    case Kind::constant:
      break;
    case Kind::symbol:
      if (auto r = replace(d)) result = *r;
      break;
    case Kind::add:
      result = part(0);
      for (std::size_t i = 1; i < operands.size(); ++i) result += part(i);
      break;
    case Kind::mul:
      result = part(0);
      for (std::size_t i = 1; i < operands.size(); ++i) result *= part(i);
      break;
    case Kind::floordiv:
      result = floordiv(part(0), part(1));
      break;
    case Kind::mod:
      result = mod(part(0), part(1));
      break;
    case Kind::min:
      result = min(part(0), part(1));
      break;
    case Kind::max:
      result = max(part(0), part(1));
      break;
  }
  done.emplace(d.node(), result);
  return result;
}

}  // namespace

Dim Dim::substitute(const Replace& replace) const {
  Done done;
  return rebuild(*this, replace, done);
}

std::optional<AffineParts> affine_in(Dim e, Dim symbol) {
  Poly coefficient;
  Poly rest;
  Poly p(e);
  rest.constant = p.constant;
  for (const PolyTerm& t : p.terms) {
    if (!t.monomial.depends_on(symbol)) {
      rest.terms.push_back(t);
      continue;
    }
    auto left = monomial_quotient(t.monomial, symbol);
    if (!left || left->depends_on(symbol)) return std::nullopt;
    coefficient.add(Poly(*left), t.coefficient);
  }
  return AffineParts{to_dim(std::move(coefficient)), to_dim(std::move(rest))};
}

}  // namespace gex
