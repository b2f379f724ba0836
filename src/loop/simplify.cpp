#include "loop/simplify.hpp"

#include <cmath>
#include <cstdlib>

#include "loop/scalar.hpp"

namespace gex::loop {
namespace {

using Kind = Expr::Kind;

std::optional<ScalarValue> constant_of(const ScalarBuilder& s, Scalar x) {
  const Expr& e = s.expr(x);
  if (e.kind != Kind::constant) return std::nullopt;
  return value_of(e);
}

Scalar make_constant(ScalarBuilder& s, DType dtype, ScalarValue v) {
  return is_float(dtype) ? s.constant(dtype, v.f) : s.constant_int(dtype, v.i);
}

std::optional<Scalar> fold(ScalarBuilder& s, Prim prim, std::span<const Scalar> args) {
  DType operand = args.back().dtype;
  if (is_float(operand) && !is_exact(prim)) return std::nullopt;
  ScalarValue values[3] = {};
  std::vector<DType> dtypes;
  for (std::size_t i = 0; i < args.size(); ++i) {
    auto c = constant_of(s, args[i]);
    if (!c) return std::nullopt;
    values[i] = *c;
    dtypes.push_back(args[i].dtype);
  }
  DType result = *result_dtype(prim, dtypes);
  return make_constant(
      s, result, normalise(result, prim_function(prim, operand)(values[0], values[1], values[2])));
}

// op(x, c) == x, or op(x, c) == c, for a constant right operand.
std::optional<Scalar> with_constant(ScalarBuilder& s, Prim prim, Scalar x, Scalar c) {
  ScalarValue v = *constant_of(s, c);
  bool floats = is_float(x.dtype);
  bool zero = floats ? v.f == 0 : v.i == 0;
  bool one = floats ? v.f == 1 : v.i == 1;
  bool all_ones = x.dtype == DType::boolean ? v.i == 1
                  : x.dtype == DType::u8    ? v.i == 255
                                            : !floats && v.i == -1;
  switch (prim) {
    case Prim::add:  // -0 is the neutral element of float addition, +0 is not
      if (zero && (!floats || std::signbit(v.f))) return x;
      break;
    case Prim::sub:
      if (zero && (!floats || !std::signbit(v.f))) return x;
      break;
    case Prim::mul:
      if (one) return x;
      if (zero && !floats) return c;
      break;
    case Prim::div:
      if (one) return x;
      break;
    case Prim::floordiv:
    case Prim::truncdiv:
      if (one && !floats) return x;
      break;
    case Prim::bit_and:
      if (all_ones) return x;
      if (zero) return c;
      break;
    case Prim::bit_or:
      if (zero) return x;
      if (all_ones) return c;
      break;
    case Prim::bit_xor:
    case Prim::shl:
    case Prim::shr:
      if (zero) return x;
      break;
    default:
      break;
  }
  return std::nullopt;
}

std::optional<Scalar> with_itself(ScalarBuilder& s, Prim prim, Scalar x) {
  bool floats = is_float(x.dtype);
  switch (prim) {
    case Prim::min:
    case Prim::max:
    case Prim::bit_and:
    case Prim::bit_or:
      return x;
    case Prim::sub:
    case Prim::bit_xor:
      if (!floats) return s.constant_int(x.dtype, 0);
      break;
    case Prim::eq:
    case Prim::le:
    case Prim::ge:
      if (!floats) return s.constant_int(DType::boolean, 1);
      break;
    case Prim::ne:
    case Prim::lt:
    case Prim::gt:  // false for NaN too, but `ne` is not
      if (!floats || prim != Prim::ne) return s.constant_int(DType::boolean, 0);
      break;
    default:
      break;
  }
  return std::nullopt;
}

std::optional<Dim> index_of(const ScalarBuilder& s, Scalar x) {
  const Expr& e = s.expr(x);
  if (e.kind == Kind::index) return e.dim;
  // Large constants (hashes, sentinels) wrap in i64; they are kept out of Dim arithmetic.
  if (e.kind == Kind::constant && std::llabs(e.imm_int) <= (1LL << 20)) return Dim(e.imm_int);
  return std::nullopt;
}

// Arithmetic on loop indices stays symbolic, so that its result can be used as an exact index.
std::optional<Scalar> on_indices(ScalarBuilder& s, Prim prim, Scalar x, Scalar y) {
  if (x.dtype != DType::i64) return std::nullopt;
  auto a = index_of(s, x), b = index_of(s, y);
  if (!a || !b) return std::nullopt;
  auto truth = [&](std::optional<bool> known, bool negate = false) -> std::optional<Scalar> {
    if (!known) return std::nullopt;
    return s.constant_int(DType::boolean, *known != negate);
  };
  bool by_positive = b->is_const() && b->constant() > 0;
  switch (prim) {
    case Prim::add:
      return s.index(*a + *b);
    case Prim::sub:
      return s.index(*a - *b);
    case Prim::mul:
      if (a->is_const() || b->is_const()) return s.index(*a * *b);
      break;
    case Prim::floordiv:
      if (by_positive) return s.index(floordiv(*a, *b));
      break;
    case Prim::mod:
      if (by_positive) return s.index(mod(*a, *b));
      break;
    case Prim::min:
      return s.index(min(*a, *b));
    case Prim::max:
      return s.index(max(*a, *b));
    case Prim::eq:
      return truth(known_eq(*a, *b));
    case Prim::ne:
      return truth(known_eq(*a, *b), true);
    case Prim::lt:
      return truth(known_lt(*a, *b));
    case Prim::ge:
      return truth(known_lt(*a, *b), true);
    case Prim::le:
      return truth(known_le(*a, *b));
    case Prim::gt:
      return truth(known_le(*a, *b), true);
    default:
      break;
  }
  return std::nullopt;
}

std::optional<Scalar> of_one(ScalarBuilder& s, Prim prim, Scalar x) {
  const Expr& e = s.expr(x);
  bool nested = e.kind == Kind::prim && e.prim == prim;
  switch (prim) {
    case Prim::neg:
    case Prim::bit_not:
      if (nested) return Scalar{e.args[0], x.dtype};
      break;
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
      if (nested || is_int(x.dtype)) return x;
      break;
    case Prim::abs:
      if (nested || x.dtype == DType::u8) return x;
      break;
    default:
      break;
  }
  return std::nullopt;
}

// Whether every value of `from` is a value of `to`.
bool holds(DType to, DType from) {
  if (from == DType::boolean) return true;
  if (to == DType::boolean) return false;
  auto bits = [](DType d) {  // of the significand: integers below 2^bits are exact
    switch (d) {
      case DType::f64:
        return 53;
      case DType::f32:
        return 24;
      case DType::f16:
        return 11;
      case DType::bf16:
        return 8;
      case DType::i64:
        return 63;
      case DType::i32:
        return 31;
      case DType::i16:
        return 15;
      case DType::i8:
        return 7;
      default:
        return 8;  // u8
    }
  };
  if (is_float(from)) return to == DType::f64 || (to == DType::f32 && is_low_float(from));
  if (is_int(to) && to == DType::u8) return from == DType::u8;
  return bits(to) >= bits(from);
}

}  // namespace

std::optional<Scalar> simplify_prim(ScalarBuilder& s, Prim prim, std::span<const Scalar> args) {
  if (auto folded = fold(s, prim, args)) return folded;
  if (prim == Prim::select) {
    if (auto c = constant_of(s, args[0])) return c->i != 0 ? args[1] : args[2];
    if (args[1].id == args[2].id) return args[1];
    if (args[1].dtype == DType::boolean) {
      auto yes = constant_of(s, args[1]), no = constant_of(s, args[2]);
      if (yes && no && yes->i != 0 && no->i == 0) return args[0];
    }
    return std::nullopt;
  }
  if (args.size() == 1) return of_one(s, prim, args[0]);
  if (args.size() != 2) return std::nullopt;
  if (args[0].id == args[1].id)
    if (auto x = with_itself(s, prim, args[0])) return x;
  if (constant_of(s, args[1]))
    if (auto x = with_constant(s, prim, args[0], args[1])) return x;
  return on_indices(s, prim, args[0], args[1]);
}

std::optional<Scalar> simplify_cast(ScalarBuilder& s, Scalar value, DType to) {
  if (auto c = constant_of(s, value)) return make_constant(s, to, convert(*c, value.dtype, to));
  const Expr& e = s.expr(value);
  if (e.kind == Kind::cast) {
    Scalar inner{e.args[0], s.expr({e.args[0], to}).dtype};
    // The outer type holds every value of the inner one: convert directly.
    if (holds(value.dtype, inner.dtype)) return s.cast(inner, to);
  }
  return std::nullopt;
}

}  // namespace gex::loop
