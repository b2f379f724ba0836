// Arithmetic and functions of one and two elements.

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

// a + alpha*b, in the compute type if alpha scales: one rounding, as in eager. Unlike in products
// and quotients, eager first rounds numbers to the dtype of the result.
std::vector<Value*> import_scaled(AtenCall& c, const char* op_name, bool swap) {
  Graph& g = c.graph();
  if (c.result().dtype == DType::boolean) {
    Value *a = operand(c, 0, DType::boolean), *b = operand(c, 1, DType::boolean);
    if (c.size() > 2) b = bit_and(g, b, operand(c, 2, DType::boolean));
    return one(bit_or(g, a, b));
  }
  const bool scaled = c.size() > 2 && !(c.is_constant_number(2) && c.number(2) == 1);
  const DType result = c.result().dtype;
  const DType t = scaled ? compute_type(result) : result;
  const auto rounded = [&](std::size_t i) { return cast(g, operand(c, i, result), t); };
  Value* a = rounded(swap ? 1 : 0);
  Value* b = rounded(swap ? 0 : 1);
  if (scaled) b = mul(g, b, rounded(2));
  return one(to_result(c, apply(g, op_name, {a, b})));
}

// Both operands rounded to the dtype of the result first, including numbers, as eager does for all
// but scaled sums, products and quotients: fmod(x, 0.3) of an f16 is by 0.30005.
AtenImport import_rounded(const char* op_name) {
  return [=](AtenCall& c) {
    const DType t = c.result().dtype;
    return one(apply(c.graph(), op_name, {operand(c, 0, t), operand(c, 1, t)}));
  };
}

// The exponents that eager PyTorch handles specially, with its rounding.
std::vector<Value*> import_pow_scalar(AtenCall& c) {
  Graph& g = c.graph();
  const bool is_known = c.is_constant_number(1);
  if (is_known && !is_float(c.result().dtype) && c.number(1) < 0) return {};  // PyTorch raises
  if (!is_known || !is_float(c.result().dtype)) return import_rounded("pow")(c);
  const double exponent = c.number(1);
  Value* x = operand(c, 0, c.result().dtype);
  if (exponent == 0) return one(full(g, c.result().dtype, 1, c.result().shape));
  if (exponent == 1) return one(x);
  if (exponent == 2) return one(square(g, x));
  if (exponent == 3) return one(mul(g, square(g, x), x));
  if (exponent == 0.5) return one(sqrt(g, x));
  if (exponent == -0.5) return one(rsqrt(g, x));
  if (exponent == -1) return one(reciprocal(g, x));
  if (exponent == -2) return one(reciprocal(g, square(g, x)));
  return import_rounded("pow")(c);
}

AtenImport import_extremum(const char* op_name, const char* bool_op_name) {
  return [=](AtenCall& c) {
    return import_binary(c.result().dtype == DType::boolean ? bool_op_name : op_name)(c);
  };
}

std::vector<Value*> import_clamp(AtenCall& c, bool has_low, std::size_t low, bool has_high,
                                 std::size_t high) {
  const DType t = c.result().dtype;
  Value* x = operand(c, 0, t);
  if (has_low && !c.none(low)) x = maximum(c.graph(), x, operand(c, low, t));
  if (has_high && !c.none(high)) x = minimum(c.graph(), x, operand(c, high, t));
  return one(x);
}

void register_binary() {
  binary("add", Prim::add, "a + b.")
      .traits(Trait::commutative | Trait::cheap)
      .aten("aten.add.Tensor", [](AtenCall& c) { return import_scaled(c, "add", false); })
      .aten("aten.add.Scalar", [](AtenCall& c) { return import_scaled(c, "add", false); })
      .define();
  binary("sub", Prim::sub, "a - b.")
      .traits(Trait::cheap)
      .aten("aten.sub.Tensor", [](AtenCall& c) { return import_scaled(c, "sub", false); })
      .aten("aten.sub.Scalar", [](AtenCall& c) { return import_scaled(c, "sub", false); })
      .aten("aten.rsub.Tensor", [](AtenCall& c) { return import_scaled(c, "sub", true); })
      .aten("aten.rsub.Scalar", [](AtenCall& c) { return import_scaled(c, "sub", true); })
      .define();
  binary("mul", Prim::mul, "a * b; logical and for bool.", any_dtype)
      .traits(Trait::commutative | Trait::cheap)
      .aten({"aten.mul.Tensor", "aten.mul.Scalar"})
      .define();
  binary("div", Prim::div, "a / b.", floating)
      .traits(Trait::cheap)
      .aten({"aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor"})
      .tested(0.5, 3)
      .define();
  binary("floor_div", Prim::floordiv, "a / b rounded towards minus infinity.")
      .tested(0.5, 9)
      .define();
  binary("trunc_div", Prim::truncdiv, "a / b rounded towards zero.").tested(0.5, 9).define();
  binary("mod", Prim::mod, "Remainder with the sign of b, as Python's %.")
      .aten("aten.remainder.Tensor", import_rounded("mod"))
      .aten("aten.remainder.Scalar", import_rounded("mod"))
      .aten("aten.remainder.Scalar_Tensor", import_rounded("mod"))
      .tested(0.5, 9)
      .define();
  binary("fmod", Prim::fmod, "Remainder with the sign of a, as C's fmod.")
      .aten("aten.fmod.Tensor", import_rounded("fmod"))
      .aten("aten.fmod.Scalar", import_rounded("fmod"))
      .tested(0.5, 9)
      .define();
  binary("pow", Prim::pow, "a to the power b.")
      .aten("aten.pow.Tensor_Tensor", import_rounded("pow"))
      .aten("aten.pow.Scalar", import_rounded("pow"))
      .aten("aten.pow.Tensor_Scalar", import_pow_scalar)
      .tested(0.1, 3)
      .define();
  binary("minimum", Prim::min, "The smaller; NaN if either is NaN.")
      .traits(Trait::commutative | Trait::cheap)
      .aten("aten.minimum.default", import_extremum("minimum", "bit_and"))
      .aten("aten.min.other", import_extremum("minimum", "bit_and"))
      .define();
  binary("maximum", Prim::max, "The larger; NaN if either is NaN.")
      .traits(Trait::commutative | Trait::cheap)
      .aten("aten.maximum.default", import_extremum("maximum", "bit_or"))
      .aten("aten.max.other", import_extremum("maximum", "bit_or"))
      .aten("aten.clamp.default", [](AtenCall& c) { return import_clamp(c, true, 1, true, 2); })
      .aten("aten.clamp.Tensor", [](AtenCall& c) { return import_clamp(c, true, 1, true, 2); })
      .aten("aten.clamp_min.default",
            [](AtenCall& c) { return import_clamp(c, true, 1, false, 0); })
      .aten("aten.clamp_min.Tensor", [](AtenCall& c) { return import_clamp(c, true, 1, false, 0); })
      .aten("aten.clamp_max.default",
            [](AtenCall& c) { return import_clamp(c, false, 0, true, 1); })
      .aten("aten.clamp_max.Tensor", [](AtenCall& c) { return import_clamp(c, false, 0, true, 1); })
      .aten("aten.hardtanh.default", [](AtenCall& c) { return import_clamp(c, true, 1, true, 2); })
      .define();
  binary("atan2", Prim::atan2, "Angle of the point (b, a).", floating)
      .aten("aten.atan2.default")
      .define();
}

void register_unary() {
  unary("neg", Prim::neg, "-x.", numeric).traits(Trait::cheap).aten("aten.neg.default").define();
  unary("abs", Prim::abs, "|x|.", numeric)
      .traits(Trait::cheap | Trait::idempotent)
      .aten("aten.abs.default")
      .define();
  unary_body(
      "sign", "-1, 0 or 1; 0 for NaN.",
      [](ScalarBuilder& s, const Node&, Scalar x) {
        const Scalar sign = s.unary(Prim::sign, x);
        if (!is_float(x.dtype)) return sign;
        return s.select(s.unary(Prim::is_nan, x), s.constant(x.dtype, 0.0), sign);
      },
      numeric)
      .traits(Trait::cheap | Trait::idempotent)
      .aten({"aten.sign.default", "aten.sgn.default"})
      .define();
  unary("exp", Prim::exp, "e^x.").aten("aten.exp.default").define();
  unary("exp2", Prim::exp2, "2^x.").aten("aten.exp2.default").define();
  unary("expm1", Prim::expm1, "e^x - 1.").aten("aten.expm1.default").define();
  unary("log", Prim::log, "Natural logarithm.").aten("aten.log.default").tested(0.1, 9).define();
  unary("log2", Prim::log2, "Logarithm to base 2.")
      .aten("aten.log2.default")
      .tested(0.1, 9)
      .define();
  unary("log10", Prim::log10, "Logarithm to base 10.")
      .aten("aten.log10.default")
      .tested(0.1, 9)
      .define();
  unary("log1p", Prim::log1p, "log(1 + x).").aten("aten.log1p.default").tested(-0.9, 9).define();
  unary("sqrt", Prim::sqrt, "Square root.")
      .traits(Trait::cheap)
      .aten("aten.sqrt.default")
      .tested(0, 9)
      .define();
  unary("rsqrt", Prim::rsqrt, "1 / sqrt(x).")
      .traits(Trait::cheap)
      .aten("aten.rsqrt.default")
      .tested(0.1, 9)
      .define();
  unary("reciprocal", Prim::reciprocal, "1 / x.")
      .traits(Trait::cheap)
      .aten("aten.reciprocal.default")
      .tested(0.1, 9)
      .define();
  unary("sin", Prim::sin, "Sine of radians.").aten("aten.sin.default").define();
  unary("cos", Prim::cos, "Cosine of radians.").aten("aten.cos.default").define();
  unary("tan", Prim::tan, "Tangent of radians.").aten("aten.tan.default").tested(-1, 1).define();
  unary("asin", Prim::asin, "Inverse sine.").aten("aten.asin.default").tested(-1, 1).define();
  unary("acos", Prim::acos, "Inverse cosine.").aten("aten.acos.default").tested(-1, 1).define();
  unary("atan", Prim::atan, "Inverse tangent.").aten("aten.atan.default").define();
  unary("sinh", Prim::sinh, "Hyperbolic sine.").aten("aten.sinh.default").define();
  unary("cosh", Prim::cosh, "Hyperbolic cosine.").aten("aten.cosh.default").define();
  unary("tanh", Prim::tanh, "Hyperbolic tangent.").aten("aten.tanh.default").define();
  unary("sigmoid", Prim::sigmoid, "1 / (1 + e^-x).").aten("aten.sigmoid.default").define();
  unary("erf", Prim::erf, "Gauss error function.").aten("aten.erf.default").define();
  unary("floor", Prim::floor, "Largest integer not above x.", numeric)
      .traits(Trait::cheap | Trait::idempotent)
      .aten("aten.floor.default")
      .define();
  unary("ceil", Prim::ceil, "Smallest integer not below x.", numeric)
      .traits(Trait::cheap | Trait::idempotent)
      .aten("aten.ceil.default")
      .define();
  unary("round", Prim::round, "Nearest integer, half to even.", numeric)
      .traits(Trait::cheap | Trait::idempotent)
      .aten("aten.round.default")
      .define();
  unary("trunc", Prim::trunc, "Integer part.", numeric)
      .traits(Trait::cheap | Trait::idempotent)
      .aten({"aten.trunc.default", "aten.fix.default"})
      .define();
}

void register_composed_functions() {
  auto k = [](ScalarBuilder& s, Scalar x, double v) { return s.constant(x.dtype, v); };
  // Beyond this the inverse functions equal log(2x), and squares of f32 may overflow.
  constexpr double kFar = 1e8;
  auto log_of_twice = [k](ScalarBuilder& s, Scalar x) {
    return s.add(s.unary(Prim::log, x), k(s, x, std::numbers::ln2));
  };
  unary_body("asinh", "Inverse hyperbolic sine.",
             [=](ScalarBuilder& s, const Node&, Scalar x) {
               // |x| + x^2 / (1 + sqrt(1 + x^2)) keeps small values exact.
               const Scalar a = s.unary(Prim::abs, x), square = s.mul(x, x);
               const Scalar root = s.unary(Prim::sqrt, s.add(square, k(s, x, 1)));
               const Scalar inner = s.add(a, s.div(square, s.add(root, k(s, x, 1))));
               const Scalar near = s.unary(Prim::log1p, inner);
               const Scalar far = s.binary(Prim::gt, a, k(s, x, kFar));
               const Scalar size = s.select(far, log_of_twice(s, a), near);
               const Scalar zero = k(s, x, 0);
               const Scalar below = s.binary(Prim::lt, x, zero);
               const Scalar value = s.select(below, s.unary(Prim::neg, size), size);
               return s.select(s.binary(Prim::eq, x, zero), x, value);  // -0 too
             })
      .aten("aten.asinh.default")
      .define();
  unary_body("acosh", "Inverse hyperbolic cosine.",
             [=](ScalarBuilder& s, const Node&, Scalar x) {
               // Two roots: below 1 the first is NaN, and so is the result.
               const Scalar above = s.sub(x, k(s, x, 1));
               const Scalar root =
                   s.mul(s.unary(Prim::sqrt, above), s.unary(Prim::sqrt, s.add(x, k(s, x, 1))));
               const Scalar near = s.unary(Prim::log1p, s.add(above, root));
               const Scalar far = s.binary(Prim::gt, x, k(s, x, kFar));
               return s.select(far, log_of_twice(s, x), near);
             })
      .aten("aten.acosh.default")
      .tested(1.1, 9)
      .define();
  unary_body("atanh", "Inverse hyperbolic tangent.",
             [k](ScalarBuilder& s, const Node&, Scalar x) {
               const Scalar ratio = s.div(s.mul(x, k(s, x, 2)), s.sub(k(s, x, 1), x));
               return s.mul(s.unary(Prim::log1p, ratio), k(s, x, 0.5));
             })
      .aten("aten.atanh.default")
      .tested(-0.9, 0.9)
      .define();
  unary_body(
      "frac", "What truncation leaves of x.",
      [](ScalarBuilder& s, const Node&, Scalar x) { return s.sub(x, s.unary(Prim::trunc, x)); })
      .traits(Trait::cheap)
      .aten("aten.frac.default")
      .define();
  auto without_nan = [](Prim prim) {
    return [prim](ScalarBuilder& s, const Node&, Scalar a, Scalar b) {
      const Scalar chosen = s.binary(prim, a, b);
      if (!is_float(a.dtype)) return chosen;
      const Scalar unless_a = s.select(s.unary(Prim::is_nan, a), b, chosen);
      return s.select(s.unary(Prim::is_nan, b), a, unless_a);
    };
  };
  binary_body("fmin", "The smaller; a NaN loses against a number.", without_nan(Prim::min))
      .traits(Trait::cheap)
      .aten("aten.fmin.default")
      .define();
  binary_body("fmax", "The larger; a NaN loses against a number.", without_nan(Prim::max))
      .traits(Trait::cheap)
      .aten("aten.fmax.default")
      .define();
  binary_body(
      "log_add_exp", "log(e^a + e^b).",
      [](ScalarBuilder& s, const Node&, Scalar a, Scalar b) {
        const Scalar larger = s.binary(Prim::max, a, b);
        const Scalar distance = s.unary(Prim::neg, s.unary(Prim::abs, s.sub(a, b)));
        const Scalar sum = s.add(larger, s.unary(Prim::log1p, s.unary(Prim::exp, distance)));
        // The difference of equal infinities is 0, not NaN.
        const Scalar same = s.logical_and(s.binary(Prim::eq, a, b), s.unary(Prim::is_inf, a));
        return s.select(same, a, sum);
      },
      floating)
      .traits(Trait::commutative)
      .aten("aten.logaddexp.default")
      .define();
  binary_body(
      "x_log_y", "a * log(b), and 0 where a is 0.",
      [k](ScalarBuilder& s, const Node&, Scalar a, Scalar b) {
        const Scalar product = s.mul(a, s.unary(Prim::log, b));
        const Scalar zero = s.binary(Prim::eq, a, k(s, a, 0));
        const Scalar value = s.select(zero, k(s, a, 0), product);
        return s.select(s.unary(Prim::is_nan, b), b, value);
      },
      floating)
      .aten({"aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self"})
      .tested(0.1, 3)
      .define();
  binary_body(
      "hypot", "sqrt(a^2 + b^2), without overflow on the way.",
      [k](ScalarBuilder& s, const Node&, Scalar a, Scalar b) {
        const Scalar x = s.unary(Prim::abs, a), y = s.unary(Prim::abs, b);
        const Scalar larger = s.binary(Prim::max, x, y), smaller = s.binary(Prim::min, x, y);
        // Otherwise 0 / 0; an infinity determines the result, whatever the other is.
        const Scalar zero = s.binary(Prim::eq, larger, k(s, a, 0));
        const Scalar ratio = s.div(smaller, s.select(zero, k(s, a, 1), larger));
        const Scalar root = s.unary(Prim::sqrt, s.add(s.mul(ratio, ratio), k(s, a, 1)));
        const Scalar inf = k(s, a, std::numeric_limits<double>::infinity());
        const Scalar infinite =
            s.binary(Prim::bit_or, s.unary(Prim::is_inf, a), s.unary(Prim::is_inf, b));
        return s.select(infinite, inf, s.mul(larger, root));
      },
      floating)
      .traits(Trait::commutative | Trait::cheap)
      .aten("aten.hypot.default")
      .define();
}

// a + (value * b) * c, or / c, in eager's order: computed in the compute type, rounded once.
std::vector<Value*> import_addc(AtenCall& c, const char* op_name) {
  Graph& g = c.graph();
  const DType t = compute_type(c.result().dtype);
  Value* scaled = operand(c, 1, t);
  if (!(c.is_constant_number(3) && c.number(3) == 1)) scaled = mul(g, operand(c, 3, t), scaled);
  Value* term = apply(g, op_name, {scaled, operand(c, 2, t)});
  return one(to_result(c, add(g, operand(c, 0, t), term)));
}

// Eager's lerp: from the nearer end, so that it is exact at both.
std::vector<Value*> import_lerp(AtenCall& c) {
  Graph& g = c.graph();
  const DType t = compute_type(c.result().dtype);
  Value *a = operand(c, 0, t), *b = operand(c, 1, t), *weight = operand(c, 2, t);
  Value* difference = sub(g, b, a);
  Value* from_a = add(g, a, mul(g, weight, difference));
  Value* from_b = sub(g, b, mul(g, difference, sub(g, scalar(g, t, 1), weight)));
  Value* near_a = lt(g, abs(g, weight), scalar(g, t, 0.5));
  return one(to_result(c, where(g, near_a, from_a, from_b)));
}

// a*b + c with one rounding: f32 operands multiply exactly in f64.
std::vector<Value*> import_fma(AtenCall& c) {
  Graph& g = c.graph();
  const DType t = is_float(c.result().dtype) ? DType::f64 : c.result().dtype;
  return one(to_result(c, add(g, mul(g, operand(c, 0, t), operand(c, 1, t)), operand(c, 2, t))));
}

std::vector<Value*> import_nan_to_num(AtenCall& c) {  // x, nan, posinf, neginf
  Graph& g = c.graph();
  const DType t = c.result().dtype;
  Value* x = operand(c, 0, t);
  if (!is_float(t)) return one(x);
  const double inf = std::numeric_limits<double>::infinity();
  auto replaced = [&](Value* where_true, std::size_t i, double otherwise, Value* rest) {
    Value* with = c.none(i) ? scalar(g, t, otherwise) : operand(c, i, t);
    return where(g, where_true, with, rest);
  };
  Value* y = replaced(is_nan(g, x), 1, 0, x);
  y = replaced(eq(g, x, scalar(g, t, inf)), 2, largest_finite(t), y);
  return one(replaced(eq(g, x, scalar(g, t, -inf)), 3, -largest_finite(t), y));
}

void register_composed_rows() {
  register_aten_row("prims.fma.default", import_fma);
  register_aten_row("aten.nan_to_num.default", import_nan_to_num);
  register_aten_row("aten.threshold.default", [](AtenCall& c) {  // x, threshold, value
    Graph& g = c.graph();
    const DType t = c.result().dtype;
    Value* x = operand(c, 0, t);
    return one(where(g, le(g, x, operand(c, 1, t)), operand(c, 2, t), x));
  });
  register_aten_row("aten.native_dropout_backward.default", [](AtenCall& c) {  // grad, mask, scale
    Graph& g = c.graph();
    const DType t = compute_type(c.result().dtype);
    Value* kept = mul(g, operand(c, 0, t), operand(c, 1, t));
    // Eager's dropout divides the mask by 1 - p in the dtype of the result; scale is 1 / (1 - p).
    if (!c.is_constant_number(2)) return one(to_result(c, mul(g, kept, operand(c, 2, t))));
    double scale = c.number(2);
    if (t == DType::f32) scale = 1.0F / static_cast<float>(1 / scale);
    return one(to_result(c, mul(g, kept, cast(g, scalar(g, c.result().dtype, scale), t))));
  });
  register_aten_row("aten.addcmul.default", [](AtenCall& c) { return import_addc(c, "mul"); });
  register_aten_row("aten.addcdiv.default", [](AtenCall& c) { return import_addc(c, "div"); });
  register_aten_row("aten.lerp.Scalar", import_lerp);
  register_aten_row("aten.lerp.Tensor", import_lerp);
  register_aten_row("aten.square.default", [](AtenCall& c) {
    return one(square(c.graph(), operand(c, 0, c.result().dtype)));
  });
}

}  // namespace

void register_elementwise() {
  register_binary();
  register_unary();
  register_composed_functions();
  register_composed_rows();
  register_aten_facts({"aten.add"}, {.range = AtenFacts::Range::sum});
  register_aten_facts({"aten.sub"}, {.range = AtenFacts::Range::difference});
  register_aten_facts({"aten.mul"}, {.range = AtenFacts::Range::product});
  register_aten_facts({"aten.remainder"}, {.divisor = 1, .range = AtenFacts::Range::remainder});
  register_aten_facts({"aten.fmod"}, {.divisor = 1});
  register_aten_facts({"aten.clamp"}, {.range = AtenFacts::Range::clamped});
  register_aten_facts({"aten.ceil", "aten.floor", "aten.round", "aten.trunc"},
                      {.no_op = AtenFacts::NoOp::on_integers});
  register_aten_facts({"aten.pow"}, {.no_op = AtenFacts::NoOp::power_of_one});
}

}  // namespace gex::ops
