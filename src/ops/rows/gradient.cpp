// Gradients of activations, as used by PyTorch's autograd: small compositions in the compute type,
// rounded once.

#include <cmath>
#include <numbers>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

// A formula over values of one dtype, with plain numbers.
class Formula {
 public:
  explicit Formula(AtenCall& c) : c_(c), g_(c.graph()), t_(compute_type(c.result().dtype)) {}

  Value* in(std::size_t i) { return operand(c_, i, t_); }
  Value* number(double v) { return scalar(g_, t_, v); }
  Value* add(Value* a, Value* b) { return ops::add(g_, a, b); }
  Value* sub(Value* a, Value* b) { return ops::sub(g_, a, b); }
  Value* mul(Value* a, Value* b) { return ops::mul(g_, a, b); }
  Value* div(Value* a, Value* b) { return ops::div(g_, a, b); }
  Value* f(const char* op_name, Value* a) { return apply(g_, op_name, {a}); }
  Value* compare(const char* op_name, Value* a, double b) {
    return apply(g_, op_name, {a, number(b)});
  }
  Value* where(Value* c, Value* a, Value* b) { return ops::where(g_, c, a, b); }
  Graph& graph() { return g_; }
  std::vector<Value*> result(Value* v) { return one(to_result(c_, v)); }

 private:
  AtenCall& c_;
  Graph& g_;
  DType t_;
};

std::vector<Value*> sigmoid_backward(AtenCall& c) {  // grad, y
  Formula f(c);
  Value* y = f.in(1);
  return f.result(f.mul(f.in(0), f.mul(f.sub(f.number(1), y), y)));
}

std::vector<Value*> tanh_backward(AtenCall& c) {  // grad, y
  Formula f(c);
  Value* y = f.in(1);
  return f.result(f.mul(f.in(0), f.sub(f.number(1), f.mul(y, y))));
}

std::vector<Value*> silu_backward(AtenCall& c) {  // grad, x
  Formula f(c);
  Value* x = f.in(1);
  Value* s = f.f("sigmoid", x);
  Value* slope = f.mul(s, f.add(f.number(1), f.mul(x, f.sub(f.number(1), s))));
  return f.result(f.mul(f.in(0), slope));
}

std::vector<Value*> gelu_backward(AtenCall& c) {  // grad, x, approximate
  Formula f(c);
  Value *grad = f.in(0), *x = f.in(1);
  if (c.string(2) == "tanh") {
    const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    Value* square = f.mul(x, x);
    Value* cubic = f.mul(square, x);
    Value* inner = f.mul(f.number(beta), f.add(x, f.mul(f.number(0.044715), cubic)));
    Value* t = f.f("tanh", inner);
    Value* left = f.mul(f.number(0.5), x);
    Value* right = f.add(f.number(1), t);
    Value* inner_slope =
        f.mul(f.number(beta), f.add(f.number(1), f.mul(f.number(3 * 0.044715), square)));
    Value* tanh_slope = f.sub(f.number(1), f.mul(t, t));
    Value* slope = f.add(f.mul(f.number(0.5), right), f.mul(f.mul(left, tanh_slope), inner_slope));
    return f.result(f.mul(grad, slope));
  }
  Value* cdf = f.mul(f.number(0.5),
                     f.add(f.number(1), f.f("erf", f.mul(x, f.number(1 / std::numbers::sqrt2)))));
  Value* density = f.mul(f.f("exp", f.mul(f.mul(x, x), f.number(-0.5))),
                         f.number(std::numbers::inv_sqrtpi / std::numbers::sqrt2));
  return f.result(f.mul(grad, f.add(cdf, f.mul(x, density))));
}

std::vector<Value*> threshold_backward(AtenCall& c) {  // grad, x, threshold
  Formula f(c);
  return f.result(f.where(f.compare("le", f.in(1), c.number(2)), f.number(0), f.in(0)));
}

std::vector<Value*> hardtanh_backward(AtenCall& c) {  // grad, x, low, high
  Formula f(c);
  Value* x = f.in(1);
  Value* outside =
      bit_or(f.graph(), f.compare("le", x, c.number(2)), f.compare("ge", x, c.number(3)));
  return f.result(f.where(outside, f.number(0), f.in(0)));
}

std::vector<Value*> leaky_relu_backward(AtenCall& c) {  // grad, x, slope, is_result
  Formula f(c);
  Value* grad = f.in(0);
  return f.result(f.where(f.compare("gt", f.in(1), 0), grad, f.mul(grad, f.number(c.number(2)))));
}

std::vector<Value*> hardswish_backward(AtenCall& c) {  // grad, x
  Formula f(c);
  Value *grad = f.in(0), *x = f.in(1);
  Value* middle = f.mul(grad, f.add(f.div(x, f.number(3)), f.number(0.5)));
  Value* upper = f.where(f.compare("lt", x, 3), middle, grad);
  return f.result(f.where(f.compare("le", x, -3), f.number(0), upper));
}

std::vector<Value*> hardsigmoid_backward(AtenCall& c) {  // grad, x
  Formula f(c);
  Value* x = f.in(1);
  Value* inside = bit_and(f.graph(), f.compare("gt", x, -3), f.compare("lt", x, 3));
  return f.result(f.where(inside, f.div(f.in(0), f.number(6)), f.number(0)));
}

std::vector<Value*> elu_backward(AtenCall& c) {  // grad, alpha, scale, input_scale, is_result, x
  Formula f(c);
  const double alpha = c.number(1), scale = c.number(2), input_scale = c.number(3);
  Value *grad = f.in(0), *x = f.in(5);
  Value* negative = nullptr;
  if (c.flag(4)) {
    negative = f.mul(f.mul(grad, f.number(input_scale)), f.add(x, f.number(alpha * scale)));
  } else {
    Value* e = f.f("exp", f.mul(x, f.number(input_scale)));
    negative = f.mul(grad, f.mul(f.number(input_scale * alpha * scale), e));
  }
  return f.result(f.where(f.compare("le", x, 0), negative, f.mul(grad, f.number(scale))));
}

std::vector<Value*> softplus_backward(AtenCall& c) {  // grad, x, beta, threshold
  Formula f(c);
  Value *grad = f.in(0), *scaled = f.mul(f.in(1), f.number(c.number(2)));
  Value* smooth = f.mul(grad, f.f("sigmoid", scaled));
  return f.result(f.where(f.compare("gt", scaled, c.number(3)), grad, smooth));
}

std::vector<Value*> mish_backward(AtenCall& c) {  // grad, x
  Formula f(c);
  Value* x = f.in(1);
  Value* t = f.f("tanh", f.f("log1p", f.f("exp", x)));
  Value* inner = f.mul(f.mul(x, f.f("sigmoid", x)), f.sub(f.number(1), f.mul(t, t)));
  return f.result(f.mul(f.in(0), f.add(t, inner)));
}

std::vector<Value*> log_sigmoid_forward(AtenCall& c) {  // x -> y, buffer
  Value* y = apply(c.graph(), "log_sigmoid", {c.tensor(0)});
  // The buffer e^-|x| is for eager's CPU gradient; ours needs only x, but returns the buffer too.
  Graph& g = c.graph();
  Value* buffer = exp(g, neg(g, abs(g, operand(c, 0, compute_type(c.result().dtype)))));
  if (known_eq(c.result(1).numel(), 0) == true) {
    return {y, full(g, c.result(1).dtype, 0, c.result(1).shape)};
  }
  return {y, to_result(c, buffer, 1)};
}

std::vector<Value*> log_sigmoid_backward(AtenCall& c) {  // grad, x, buffer
  Formula f(c);
  return f.result(f.mul(f.in(0), f.f("sigmoid", f.f("neg", f.in(1)))));
}

}  // namespace

void register_gradient_rows() {
  register_aten_row("aten.sigmoid_backward.default", sigmoid_backward);
  register_aten_row("aten.tanh_backward.default", tanh_backward);
  register_aten_row("aten.silu_backward.default", silu_backward);
  register_aten_row("aten.gelu_backward.default", gelu_backward);
  register_aten_row("aten.threshold_backward.default", threshold_backward);
  register_aten_row("aten.hardtanh_backward.default", hardtanh_backward);
  register_aten_row("aten.leaky_relu_backward.default", leaky_relu_backward);
  register_aten_row("aten.hardswish_backward.default", hardswish_backward);
  register_aten_row("aten.hardsigmoid_backward.default", hardsigmoid_backward);
  register_aten_row("aten.elu_backward.default", elu_backward);
  register_aten_row("aten.softplus_backward.default", softplus_backward);
  register_aten_row("aten.mish_backward.default", mish_backward);
  register_aten_row("aten.log_sigmoid_forward.default", log_sigmoid_forward);
  register_aten_row("aten.log_sigmoid_backward.default", log_sigmoid_backward);
}

}  // namespace gex::ops
