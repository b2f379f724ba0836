// The semantics of each primitive, once for floats (in double) and once for integers (in i64).

#include "loop/scalar.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/half.hpp"
#include "loop/philox.hpp"

namespace gex::loop {
namespace {

using I = std::int64_t;
using U = std::uint64_t;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

I wrap(U value) { return static_cast<I>(value); }

// --- floats ---
double float_mod(double a, double b) {
  double m = std::fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
// In the dtype itself (f32 for low floats): a quotient that rounds up to an integer must count as
// that integer.
template <class T>
double float_floordiv(T a, T b) {
  if (b == 0) return a / b;
  T m = std::fmod(a, b);
  T q = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) q -= 1;
  if (q == 0) return std::copysign(T(0), a / b);
  T f = std::floor(q);
  return q - f > T(0.5) ? f + 1 : f;
}
double float_min(double a, double b) { return a != a || b != b ? kNan : (b < a ? b : a); }
double float_max(double a, double b) { return a != a || b != b ? kNan : (b > a ? b : a); }
double float_sign(double a) { return a != a ? a : (a > 0 ? 1 : (a < 0 ? -1 : 0)); }

// --- integers: wrap, and no input traps ---
I int_truncdiv(I a, I b) { return b == 0 ? 0 : (b == -1 ? wrap(-static_cast<U>(a)) : a / b); }
I int_fmod(I a, I b) { return b == 0 || b == -1 ? 0 : a % b; }
I int_mod(I a, I b) {
  I m = int_fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
I int_floordiv(I a, I b) {
  I q = int_truncdiv(a, b);
  I m = int_fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? q - 1 : q;
}
I int_pow(I a, I b) {
  if (b < 0) return a == 1 ? 1 : (a == -1 ? (b % 2 != 0 ? -1 : 1) : 0);
  U result = 1, base = static_cast<U>(a);
  for (; b != 0; b >>= 1, base *= base)
    if (b & 1) result *= base;
  return wrap(result);
}
I int_shl(I a, I b) { return b < 0 || b >= 64 ? 0 : wrap(static_cast<U>(a) << b); }
I int_shr(I a, I b) { return a >> (b < 0 || b >= 64 ? 63 : b); }

#define GEX_FLOAT(expression)                                 \
  [](ScalarValue x, ScalarValue y, ScalarValue) {             \
    [[maybe_unused]] double a = x.f, b = y.f;                 \
    return ScalarValue{.f = static_cast<double>(expression)}; \
  }
#define GEX_TEST(type, member, expression)            \
  [](ScalarValue x, ScalarValue y, ScalarValue) {     \
    [[maybe_unused]] type a = x.member, b = y.member; \
    return ScalarValue{.i = (expression) ? 1 : 0};    \
  }
#define GEX_INT(expression)                       \
  [](ScalarValue x, ScalarValue y, ScalarValue) { \
    [[maybe_unused]] I a = x.i, b = y.i;          \
    return ScalarValue{.i = expression};          \
  }

PrimFn float_function(Prim prim, bool single) {
  if (single && prim == Prim::floordiv)
    return GEX_FLOAT(float_floordiv(static_cast<float>(a), static_cast<float>(b)));
  if (single && prim == Prim::truncdiv) return GEX_FLOAT(std::trunc(static_cast<float>(a / b)));
  switch (prim) {
    case Prim::add:
      return GEX_FLOAT(a + b);
    case Prim::sub:
      return GEX_FLOAT(a - b);
    case Prim::mul:
      return GEX_FLOAT(a * b);
    case Prim::div:
      return GEX_FLOAT(a / b);
    case Prim::floordiv:
      return GEX_FLOAT(float_floordiv(a, b));
    case Prim::mod:
      return GEX_FLOAT(float_mod(a, b));
    case Prim::truncdiv:
      return GEX_FLOAT(std::trunc(a / b));
    case Prim::fmod:
      return GEX_FLOAT(std::fmod(a, b));
    case Prim::pow:
      return GEX_FLOAT(std::pow(a, b));
    case Prim::atan2:
      return GEX_FLOAT(std::atan2(a, b));
    case Prim::min:
      return GEX_FLOAT(float_min(a, b));
    case Prim::max:
      return GEX_FLOAT(float_max(a, b));
    case Prim::neg:
      return GEX_FLOAT(-a);
    case Prim::abs:
      return GEX_FLOAT(std::fabs(a));
    case Prim::sign:
      return GEX_FLOAT(float_sign(a));
    case Prim::sqrt:
      return GEX_FLOAT(std::sqrt(a));
    case Prim::rsqrt:
      return GEX_FLOAT(1 / std::sqrt(a));
    case Prim::reciprocal:
      return GEX_FLOAT(1 / a);
    case Prim::exp:
      return GEX_FLOAT(std::exp(a));
    case Prim::exp2:
      return GEX_FLOAT(std::exp2(a));
    case Prim::expm1:
      return GEX_FLOAT(std::expm1(a));
    case Prim::log:
      return GEX_FLOAT(std::log(a));
    case Prim::log2:
      return GEX_FLOAT(std::log2(a));
    case Prim::log10:
      return GEX_FLOAT(std::log10(a));
    case Prim::log1p:
      return GEX_FLOAT(std::log1p(a));
    case Prim::sin:
      return GEX_FLOAT(std::sin(a));
    case Prim::cos:
      return GEX_FLOAT(std::cos(a));
    case Prim::tan:
      return GEX_FLOAT(std::tan(a));
    case Prim::asin:
      return GEX_FLOAT(std::asin(a));
    case Prim::acos:
      return GEX_FLOAT(std::acos(a));
    case Prim::atan:
      return GEX_FLOAT(std::atan(a));
    case Prim::sinh:
      return GEX_FLOAT(std::sinh(a));
    case Prim::cosh:
      return GEX_FLOAT(std::cosh(a));
    case Prim::tanh:
      return GEX_FLOAT(std::tanh(a));
    case Prim::sigmoid:
      return GEX_FLOAT(1 / (1 + std::exp(-a)));
    case Prim::erf:
      return GEX_FLOAT(std::erf(a));
    case Prim::floor:
      return GEX_FLOAT(std::floor(a));
    case Prim::ceil:
      return GEX_FLOAT(std::ceil(a));
    case Prim::round:
      return GEX_FLOAT(std::nearbyint(a));
    case Prim::trunc:
      return GEX_FLOAT(std::trunc(a));
    case Prim::eq:
      return GEX_TEST(double, f, a == b);
    case Prim::ne:
      return GEX_TEST(double, f, a != b);
    case Prim::lt:
      return GEX_TEST(double, f, a < b);
    case Prim::le:
      return GEX_TEST(double, f, a <= b);
    case Prim::gt:
      return GEX_TEST(double, f, a > b);
    case Prim::ge:
      return GEX_TEST(double, f, a >= b);
    case Prim::is_nan:
      return GEX_TEST(double, f, a != a);
    case Prim::is_inf:
      return GEX_TEST(double, f, std::isinf(a));
    default:
      return nullptr;
  }
}

PrimFn int_function(Prim prim) {
  switch (prim) {
    case Prim::add:
      return GEX_INT(wrap(static_cast<U>(a) + static_cast<U>(b)));
    case Prim::sub:
      return GEX_INT(wrap(static_cast<U>(a) - static_cast<U>(b)));
    case Prim::mul:
      return GEX_INT(wrap(static_cast<U>(a) * static_cast<U>(b)));
    case Prim::floordiv:
      return GEX_INT(int_floordiv(a, b));
    case Prim::mod:
      return GEX_INT(int_mod(a, b));
    case Prim::truncdiv:
      return GEX_INT(int_truncdiv(a, b));
    case Prim::fmod:
      return GEX_INT(int_fmod(a, b));
    case Prim::pow:
      return GEX_INT(int_pow(a, b));
    case Prim::min:
      return GEX_INT(b < a ? b : a);
    case Prim::max:
      return GEX_INT(b > a ? b : a);
    case Prim::neg:
      return GEX_INT(wrap(-static_cast<U>(a)));
    case Prim::abs:
      return GEX_INT(a < 0 ? wrap(-static_cast<U>(a)) : a);
    case Prim::sign:
      return GEX_INT((a > 0) - (a < 0));
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
      return GEX_INT(a);
    case Prim::eq:
      return GEX_TEST(I, i, a == b);
    case Prim::ne:
      return GEX_TEST(I, i, a != b);
    case Prim::lt:
      return GEX_TEST(I, i, a < b);
    case Prim::le:
      return GEX_TEST(I, i, a <= b);
    case Prim::gt:
      return GEX_TEST(I, i, a > b);
    case Prim::ge:
      return GEX_TEST(I, i, a >= b);
    case Prim::bit_and:
      return GEX_INT(a & b);
    case Prim::bit_or:
      return GEX_INT(a | b);
    case Prim::bit_xor:
      return GEX_INT(a ^ b);
    case Prim::bit_not:
      return GEX_INT(~a);
    case Prim::shl:
      return GEX_INT(int_shl(a, b));
    case Prim::shr:
      return GEX_INT(int_shr(a, b));
    default:
      return nullptr;
  }
}

#undef GEX_FLOAT
#undef GEX_TEST
#undef GEX_INT

}  // namespace

PrimFn prim_function(Prim prim, DType operand) {
  if (prim == Prim::select)
    return [](ScalarValue a, ScalarValue b, ScalarValue c) { return a.i != 0 ? b : c; };
  if (prim == Prim::philox)
    return [](ScalarValue a, ScalarValue b, ScalarValue c) {
      return ScalarValue{.i = philox_word(a.i, b.i, c.i)};
    };
  if (prim == Prim::bit_not && operand == DType::boolean)
    return [](ScalarValue a, ScalarValue, ScalarValue) { return ScalarValue{.i = a.i == 0}; };
  PrimFn fn = is_float(operand) ? float_function(prim, operand != DType::f64) : int_function(prim);
  GEX_CHECK(fn != nullptr, name_of(prim), " is not defined on ", operand);
  return fn;
}

ScalarValue normalise(DType dtype, ScalarValue raw) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return raw;
    case DType::f32:
      return {.f = static_cast<float>(raw.f)};
    case DType::f16:
      return {.f = f16_to_f32(f32_to_f16(static_cast<float>(raw.f)))};
    case DType::bf16:
      return {.f = bf16_to_f32(f32_to_bf16(static_cast<float>(raw.f)))};
    case DType::i32:
      return {.i = static_cast<std::int32_t>(raw.i)};
    case DType::i16:
      return {.i = static_cast<std::int16_t>(raw.i)};
    case DType::i8:
      return {.i = static_cast<std::int8_t>(raw.i)};
    case DType::u8:
      return {.i = static_cast<std::uint8_t>(raw.i)};
    case DType::boolean:
      return {.i = raw.i != 0};
  }
  return raw;
}

ScalarValue convert(ScalarValue value, DType from, DType to) {
  if (to == DType::boolean) return {.i = is_float(from) ? value.f != 0 : value.i != 0};
  if (is_float(from)) {
    if (is_float(to)) return normalise(to, value);
    if (converts_through_i32(to)) {
      const bool fits = value.f > -0x1p31 - 1 && value.f < 0x1p31;
      return normalise(
          to, {.i = fits ? static_cast<I>(value.f) : std::numeric_limits<std::int32_t>::min()});
    }
    const bool fits = value.f >= -0x1p63 && value.f < 0x1p63;
    return normalise(to, {.i = fits ? static_cast<I>(value.f) : std::numeric_limits<I>::min()});
  }
  if (!is_float(to)) return normalise(to, value);
  if (to == DType::f64) return {.f = static_cast<double>(value.i)};
  // Straight to f32: going through double would round twice.
  return normalise(to, {.f = static_cast<float>(value.i)});
}

namespace {
template <class T>
T read(const void* base, I element) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + element * static_cast<I>(sizeof(T)),
              sizeof(T));
  return value;
}
template <class T>
void write(void* base, I element, T value) {
  std::memcpy(static_cast<char*>(base) + element * static_cast<I>(sizeof(T)), &value, sizeof(T));
}
}  // namespace

ScalarValue load_scalar(DType dtype, const void* base, I element) {
  switch (dtype) {
    case DType::f64:
      return {.f = read<double>(base, element)};
    case DType::f32:
      return {.f = read<float>(base, element)};
    case DType::f16:
      return {.f = f16_to_f32(read<std::uint16_t>(base, element))};
    case DType::bf16:
      return {.f = bf16_to_f32(read<std::uint16_t>(base, element))};
    case DType::i64:
      return {.i = read<I>(base, element)};
    case DType::i32:
      return {.i = read<std::int32_t>(base, element)};
    case DType::i16:
      return {.i = read<std::int16_t>(base, element)};
    case DType::i8:
      return {.i = read<std::int8_t>(base, element)};
    case DType::u8:
      return {.i = read<std::uint8_t>(base, element)};
    case DType::boolean:
      return {.i = read<std::uint8_t>(base, element) != 0};
  }
  return {.i = 0};
}

void store_scalar(DType dtype, void* base, I element, ScalarValue v) {
  switch (dtype) {
    case DType::f64:
      return write(base, element, v.f);
    case DType::f32:
      return write(base, element, static_cast<float>(v.f));
    case DType::f16:
      return write(base, element, f32_to_f16(static_cast<float>(v.f)));
    case DType::bf16:
      return write(base, element, f32_to_bf16(static_cast<float>(v.f)));
    case DType::i64:
      return write(base, element, v.i);
    case DType::i32:
      return write(base, element, static_cast<std::int32_t>(v.i));
    case DType::i16:
      return write(base, element, static_cast<std::int16_t>(v.i));
    case DType::i8:
      return write(base, element, static_cast<std::int8_t>(v.i));
    case DType::u8:
    case DType::boolean:
      return write(base, element, static_cast<std::uint8_t>(v.i));
  }
}

ScalarValue value_of(const Expr& e) {
  if (is_float(e.dtype)) return {.f = e.imm};
  if (e.dtype == DType::boolean) return {.i = e.imm != 0};
  return {.i = e.imm_int};
}

Expr constant_expr(DType dtype, ScalarValue value) {
  Expr e;
  e.kind = Expr::Kind::constant;
  e.dtype = dtype;
  value = normalise(dtype, value);
  if (is_float(dtype))
    e.imm = std::isnan(value.f) ? kNan : value.f;  // one NaN, so that equal texts are equal bits
  else if (dtype == DType::boolean)
    e.imm = static_cast<double>(value.i);
  else
    e.imm_int = value.i;
  return e;
}

}  // namespace gex::loop
