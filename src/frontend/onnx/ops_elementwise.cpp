// Arithmetic, comparisons, logic and activations.

#include <cmath>

#include "frontend/onnx/expr.hpp"

namespace gex::onnx {
namespace {

// uint64 is stored as i64: flipping the top bit makes signed comparison order it.
Expr ordered(const Row& r, std::size_t i) {
  Expr x = expr(r, i);
  if (r.elem(i) == Elem::u64)
    return binary("bit_xor", x, {r.g, ops::scalar_int(r.g, DType::i64, INT64_MIN)});
  return x.dtype() == DType::boolean ? x.to(DType::u8) : x;
}

void simple_unary(const char* onnx, const char* op) {
  add_row(onnx, [op](Row& r) { return r.one(unary(op, wide(r, 0)).to(r.dtype())); });
}

// A formula in one variable, computed in the wide type and rounded once.
void formula(const char* onnx, std::function<Expr(Row&, Expr)> f) {
  add_row(onnx, [f](Row& r) { return r.one(f(r, wide(r, 0)).to(r.dtype())); });
}

void arithmetic(const char* onnx, const char* op) {
  add_row(onnx, [op](Row& r) {
    // Before opset 7, operands were aligned at an axis.
    return r.wrapped(binary(op, expr(r, 0), expr(r, 1)));
  });
}

void comparison(const char* onnx, const char* op) {
  add_row(onnx,
          [op](Row& r) { return r.one(binary(op, ordered(r, 0), ordered(r, 1)), Elem::boolean); });
}

Items divide(Row& r) {
  Expr a = expr(r, 0), b = expr(r, 1);
  if (gex::is_float(a.dtype())) return r.one(a / b);
  if (r.elem() == Elem::u64) {
    // If the divisor is in the upper half, the quotient is 0 or 1; else divide halves and correct.
    Expr zero = a.number(0), one = a.number(1);
    Expr x = binary("bit_xor", a, {r.g, ops::scalar_int(r.g, DType::i64, INT64_MIN)});
    Expr y = binary("bit_xor", b, {r.g, ops::scalar_int(r.g, DType::i64, INT64_MIN)});
    Expr half = binary("bit_and", binary("shr", a, one),
                       {r.g, ops::scalar_int(r.g, DType::i64, INT64_MAX)});
    Expr safe = where(b <= zero, one, b);
    Expr q = binary("trunc_div", half, safe) * 2.0;
    Expr rest = a - q * safe;
    Expr more = where((rest < zero) | (rest >= safe), one, zero);
    return r.one(where(b < zero, where(x >= y, one, zero), q + more));
  }
  return r.wrapped(binary("trunc_div", a, b));
}

Items modulo(Row& r) {
  Expr a = expr(r, 0), b = expr(r, 1);
  const bool c_style = r.int_attr("fmod", 0) != 0;
  if (gex::is_float(a.dtype())) return r.one(binary(c_style ? "fmod" : "mod", a, b));
  return r.wrapped(binary(c_style ? "fmod" : "mod", a, b));
}

Items power(Row& r) {
  Expr a = expr(r, 0), b = expr(r, 1);
  const DType t = a.dtype();
  if (gex::is_float(t))
    return r.one(binary("pow", a.to(compute_type(t)), b.to(compute_type(t))).to(t));
  if (gex::is_float(b.dtype()))
    return r.wrapped(binary("pow", a.to(DType::f64), b.to(DType::f64)).to(t));
  return r.wrapped(binary("pow", a.to(DType::i64), b.to(DType::i64)).to(t));
}

Items fold_inputs(Row& r, const char* op, bool average) {
  if (r.num_inputs() == 0) r.refuse("it has no inputs");
  const bool flip = r.elem() == Elem::u64 && op != std::string("add");
  const auto operand = [&](std::size_t i) { return flip ? ordered(r, i) : wide(r, i); };
  Expr all = operand(0);
  for (std::size_t i = 1; i < r.num_inputs(); ++i) all = binary(op, all, operand(i));
  if (flip) all = binary("bit_xor", all, {r.g, ops::scalar_int(r.g, DType::i64, INT64_MIN)});
  if (average) all = all / static_cast<double>(r.num_inputs());
  return r.wrapped(all.to(r.dtype()));
}

Items bit_shift(Row& r) {
  Expr a = expr(r, 0), n = expr(r, 1).to(r.dtype());
  const double bits = bits_of(r.elem());
  const bool left = r.string_attr("direction", "LEFT") == "LEFT";
  Expr zero = a.number(0);
  Expr in_range = (n >= 0) & (n < bits);
  Expr amount = where(in_range, n, n.number(0));
  if (left) return r.wrapped(where(in_range, binary("shl", a, amount), zero));
  if (r.elem() == Elem::u64) {  // logical: the sign bit is cleared by the first step
    Expr first = binary("bit_and", binary("shr", a, a.number(1)),
                        {r.g, ops::scalar_int(r.g, DType::i64, INT64_MAX)});
    Expr shifted = binary("shr", first, max(amount - 1.0, 0));
    return r.one(where(in_range, where(amount == zero, a, shifted), zero));
  }
  // Signed numbers keep their sign however far they are shifted.
  if (!is_unsigned(r.elem()))
    return r.one(binary("shr", a, where(in_range, n, n.number(bits - 1))));
  return r.wrapped(where(in_range, binary("shr", a, amount), zero));
}

Items clip(Row& r) {
  Expr x = expr(r, 0);
  const Elem elem = r.elem();
  if (r.opset < 11) {
    const double low = r.float_attr("min", -INFINITY), high = r.float_attr("max", INFINITY);
    return r.one(min(max(x, low), high));
  }
  const bool flip = elem == Elem::u64;
  const auto bound = [&](std::size_t i) {
    Expr b = flip ? ordered(r, i) : expr(r, i);
    return b.rank() > 0 ? reshape(b, {}) : b;
  };
  if (flip) x = ordered(r, 0);
  if (r.has(1)) x = max(x, bound(1));
  if (r.has(2)) x = min(x, bound(2));
  if (flip) x = binary("bit_xor", x, {r.g, ops::scalar_int(r.g, DType::i64, INT64_MIN)});
  return r.one(x);
}

Expr softplus(Expr x) { return max(x, 0) + unary("log1p", exp(-abs(x))); }

Expr gelu(Expr x, bool approximate) {
  if (approximate) {
    Expr inner = (x + x * x * x * 0.044715) * std::sqrt(2 / M_PI);
    return x * 0.5 * (tanh(inner) + 1);
  }
  return x * 0.5 * (unary("erf", x * std::sqrt(0.5)) + 1);
}

Items is_inf(Row& r) {
  Expr x = expr(r, 0);
  if (is_small_float(r.elem())) x = {r.g, decode_small_float(r.g, x, r.elem())};
  Expr infinite = unary("is_inf", x);
  if (r.int_attr("detect_positive", 1) == 0) infinite = infinite & (x < 0);
  if (r.int_attr("detect_negative", 1) == 0) infinite = infinite & (x > 0);
  return r.one(infinite, Elem::boolean);
}

Items is_nan(Row& r) {
  Expr x = expr(r, 0);
  if (is_small_float(r.elem())) x = {r.g, decode_small_float(r.g, x, r.elem())};
  return r.one(unary("is_nan", x), Elem::boolean);
}

Items swiglu(Row& r) {  // gate and value, as two inputs or two halves of the last axis
  if (r.has(1)) {
    Expr a = wide(r, 0), b = wide(r, 1);
    return r.one((a * sigmoid(a * r.float_attr("alpha", 1)) * b).to(r.dtype()));
  }
  Expr x = wide(r, 0);
  const std::int64_t axis = r.axis_attr("axis", -1, r.rank());
  const Dim half = floordiv(x.shape()[static_cast<std::size_t>(axis)], 2);
  Expr a = slice(x, axis, 0, half), b = slice(x, axis, half, half);
  return r.one((a * sigmoid(a * r.float_attr("alpha", 1)) * b).to(r.dtype()));
}

void add_activations() {
  formula("Relu", [](Row&, Expr x) { return max(x, 0); });
  formula("LeakyRelu",
          [](Row& r, Expr x) { return where(x >= 0, x, x * r.float_attr("alpha", 0.01f)); });
  formula("ThresholdedRelu",
          [](Row& r, Expr x) { return where(x > r.float_attr("alpha", 1), x, x.number(0)); });
  formula("Elu", [](Row& r, Expr x) {
    return where(x > 0, x, unary("expm1", min(x, 0)) * r.float_attr("alpha", 1));
  });
  formula("Celu", [](Row& r, Expr x) {
    const double alpha = r.float_attr("alpha", 1);
    return max(x, 0) + min(unary("expm1", x / alpha) * alpha, 0);
  });
  formula("Selu", [](Row& r, Expr x) {
    const double alpha = r.float_attr("alpha", 1.67326319217681884765625f);
    const double gamma = r.float_attr("gamma", 1.05070102214813232421875f);
    return where(x > 0, x * gamma, unary("expm1", min(x, 0)) * (alpha * gamma));
  });
  formula("HardSigmoid", [](Row& r, Expr x) {
    return max(min(x * r.float_attr("alpha", 0.2f) + r.float_attr("beta", 0.5), 1), 0);
  });
  formula("HardSwish", [](Row&, Expr x) { return x * max(min(x / 6 + 0.5, 1), 0); });
  formula("Softplus", [](Row&, Expr x) { return softplus(x); });
  formula("Softsign", [](Row&, Expr x) { return x / (abs(x) + 1); });
  formula("Mish", [](Row&, Expr x) { return x * tanh(softplus(x)); });
  formula("Swish", [](Row& r, Expr x) { return x * sigmoid(x * r.float_attr("alpha", 1)); });
  formula("Gelu",
          [](Row& r, Expr x) { return gelu(x, r.string_attr("approximate", "none") == "tanh"); });
  formula("Shrink", [](Row& r, Expr x) {
    const double lambda = r.float_attr("lambd", 0.5), bias = r.float_attr("bias", 0);
    return where(x < -lambda, x + bias, where(x > lambda, x - bias, x.number(0)));
  });
  add_row("PRelu", [](Row& r) {
    Expr x = expr(r, 0), slope = expr(r, 1);
    if (r.opset < 7 && slope.rank() == 1 && x.rank() > 1) {  // one for each channel
      Shape shape(x.shape().size(), Dim(1));
      shape[1] = slope.shape()[0];
      slope = reshape(slope, shape);
    }
    return r.one(where(x < 0, x * slope, x));
  });
  add_row("SwiGLU", swiglu);
}

}  // namespace

void add_elementwise_rows() {
  for (const auto& [onnx, op] : std::initializer_list<std::pair<const char*, const char*>>{
           {"Sqrt", "sqrt"},       {"Reciprocal", "reciprocal"},
           {"Exp", "exp"},         {"Log", "log"},
           {"Sin", "sin"},         {"Cos", "cos"},
           {"Tan", "tan"},         {"Asin", "asin"},
           {"Acos", "acos"},       {"Atan", "atan"},
           {"Sinh", "sinh"},       {"Cosh", "cosh"},
           {"Tanh", "tanh"},       {"Asinh", "asinh"},
           {"Acosh", "acosh"},     {"Atanh", "atanh"},
           {"Sigmoid", "sigmoid"}, {"Erf", "erf"},
           {"Floor", "floor"},     {"Ceil", "ceil"},
           {"Round", "round"},     {"Neg", "neg"}})
    simple_unary(onnx, op);
  add_row("Abs",
          [](Row& r) { return is_unsigned(r.elem()) ? r.one(r.in(0)) : r.one(abs(expr(r, 0))); });
  add_row("Sign", [](Row& r) {
    if (!is_unsigned(r.elem())) return r.one(unary("sign", expr(r, 0)));
    Expr x = expr(r, 0);
    return r.one((x != 0).to(r.dtype()));
  });
  arithmetic("Add", "add");
  arithmetic("Sub", "sub");
  arithmetic("Mul", "mul");
  add_row("Div", divide);
  add_row("Mod", modulo);
  add_row("Pow", power);
  add_row("Max", [](Row& r) { return fold_inputs(r, "maximum", false); });
  add_row("Min", [](Row& r) { return fold_inputs(r, "minimum", false); });
  add_row("Sum", [](Row& r) { return fold_inputs(r, "add", false); });
  add_row("Mean", [](Row& r) { return fold_inputs(r, "add", true); });
  add_row("Clip", clip);
  comparison("Equal", "eq");
  comparison("Less", "lt");
  comparison("LessOrEqual", "le");
  comparison("Greater", "gt");
  comparison("GreaterOrEqual", "ge");
  arithmetic("And", "bit_and");
  arithmetic("Or", "bit_or");
  arithmetic("Xor", "bit_xor");
  arithmetic("BitwiseAnd", "bit_and");
  arithmetic("BitwiseOr", "bit_or");
  arithmetic("BitwiseXor", "bit_xor");
  add_row("Not", [](Row& r) { return r.one(!expr(r, 0)); });
  add_row("BitwiseNot", [](Row& r) { return r.wrapped(!expr(r, 0)); });
  add_row("BitShift", bit_shift);
  add_row("IsInf", is_inf);
  add_row("IsNaN", is_nan);
  add_row("Where",
          [](Row& r) { return r.one(where(expr(r, 0), expr(r, 1), expr(r, 2)), r.elem(1)); });
  add_activations();
}

}  // namespace gex::onnx
