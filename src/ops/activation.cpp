// Activation functions. Bodies compute in the compute type and round once, as eager does.

#include <cmath>
#include <numbers>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

struct Gelu {
  std::string approximate = "none";
  static constexpr auto fields() { return std::tuple{field("approximate", &Gelu::approximate)}; }
};
struct Slope {
  double slope = 0.01;
  static constexpr auto fields() { return std::tuple{field("slope", &Slope::slope)}; }
};
struct Elu {
  double alpha = 1, scale = 1, input_scale = 1;
  static constexpr auto fields() {
    return std::tuple{field("alpha", &Elu::alpha), field("scale", &Elu::scale),
                      field("input_scale", &Elu::input_scale)};
  }
};
struct Softplus {
  double beta = 1, threshold = 20;
  static constexpr auto fields() {
    return std::tuple{field("beta", &Softplus::beta), field("threshold", &Softplus::threshold)};
  }
};

// Imports an activation with attributes, applied to argument 0.
template <class S>
AtenImport with_attrs(const char* op_name, S (*read)(AtenCall&)) {
  return [=](AtenCall& c) {
    return one(apply(c.graph(), op_name, {operand(c, 0, c.result().dtype)}, read(c)));
  };
}

Scalar gelu_body(ScalarBuilder& s, const Node& node, Scalar x) {
  auto k = [&](double v) { return s.constant(x.dtype, v); };
  Scalar inside;
  if (node.as<Gelu>().approximate == "tanh") {
    const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    Scalar cubic = s.mul(s.mul(s.mul(x, x), x), k(0.044715));
    inside = s.unary(Prim::tanh, s.mul(k(beta), s.add(x, cubic)));
  } else {
    inside = s.unary(Prim::erf, s.mul(x, k(1 / std::numbers::sqrt2)));
  }
  return s.mul(s.mul(k(0.5), x), s.add(k(1), inside));
}

// min(max(x + 3, 0), 6)
Scalar relu6_of_x_plus_3(ScalarBuilder& s, Scalar x) {
  auto k = [&](double v) { return s.constant(x.dtype, v); };
  return s.binary(Prim::min, s.binary(Prim::max, s.add(x, k(3)), k(0)), k(6));
}

Scalar softplus_body(ScalarBuilder& s, const Node& node, Scalar x) {
  const auto a = node.as<Softplus>();
  Scalar scaled = s.mul(x, s.constant(x.dtype, a.beta));
  Scalar smooth =
      s.div(s.unary(Prim::log1p, s.unary(Prim::exp, scaled)), s.constant(x.dtype, a.beta));
  return s.select(s.binary(Prim::gt, scaled, s.constant(x.dtype, a.threshold)), x, smooth);
}

Scalar elu_body(ScalarBuilder& s, const Node& node, Scalar x) {
  const auto a = node.as<Elu>();
  auto k = [&](double v) { return s.constant(x.dtype, v); };
  Scalar negative = s.mul(s.unary(Prim::expm1, s.mul(x, k(a.input_scale))), k(a.alpha * a.scale));
  return s.select(s.binary(Prim::le, x, k(0)), negative, s.mul(x, k(a.scale)));
}

}  // namespace

void register_activation() {
  unary_body(
      "relu", "max(x, 0).",
      [](ScalarBuilder& s, const Node&, Scalar x) {
        const Scalar zero = is_float(x.dtype) ? s.constant(x.dtype, 0) : s.constant_int(x.dtype, 0);
        return s.binary(Prim::max, x, zero);
      },
      numeric)
      .traits(Trait::cheap | Trait::idempotent)
      .aten("aten.relu.default")
      .define();
  unary_body("gelu", "Gaussian error linear unit; approximate is none or tanh.", gelu_body)
      .attrs<Gelu>()
      .aten("aten.gelu.default",
            with_attrs<Gelu>("gelu", [](AtenCall& c) { return Gelu{c.string(1)}; }))
      .define();
  unary_body("silu", "x * sigmoid(x).",
             [](ScalarBuilder& s, const Node&, Scalar x) {
               Scalar e = s.unary(Prim::exp, s.unary(Prim::neg, x));
               return s.div(x, s.add(s.constant(x.dtype, 1), e));
             })
      .aten("aten.silu.default")
      .define();
  unary_body("leaky_relu", "x where positive, slope*x elsewhere.",
             [](ScalarBuilder& s, const Node& n, Scalar x) {
               Scalar scaled = s.mul(x, s.constant(x.dtype, n.as<Slope>().slope));
               return s.select(s.binary(Prim::gt, x, s.constant(x.dtype, 0)), x, scaled);
             })
      .attrs<Slope>()
      .traits(Trait::cheap)
      .aten("aten.leaky_relu.default",
            with_attrs<Slope>("leaky_relu", [](AtenCall& c) { return Slope{c.number(1)}; }))
      .define();
  unary_body("elu", "x where positive, alpha*(e^x - 1) elsewhere, scaled.", elu_body)
      .attrs<Elu>()
      .aten("aten.elu.default",
            with_attrs<Elu>("elu",
                            [](AtenCall& c) { return Elu{c.number(1), c.number(2), c.number(3)}; }))
      .define();
  unary_body("hardswish", "x * min(max(x + 3, 0), 6) / 6.",
             [](ScalarBuilder& s, const Node&, Scalar x) {
               return s.div(s.mul(x, relu6_of_x_plus_3(s, x)), s.constant(x.dtype, 6));
             })
      .traits(Trait::cheap)
      .aten("aten.hardswish.default")
      .define();
  unary_body("hardsigmoid", "min(max(x + 3, 0), 6) / 6.",
             [](ScalarBuilder& s, const Node&, Scalar x) {
               return s.div(relu6_of_x_plus_3(s, x), s.constant(x.dtype, 6));
             })
      .traits(Trait::cheap)
      .aten("aten.hardsigmoid.default")
      .define();
  unary_body("softplus", "log(1 + e^(beta*x)) / beta; x itself above the threshold.", softplus_body)
      .attrs<Softplus>()
      .aten("aten.softplus.default",
            with_attrs<Softplus>("softplus",
                                 [](AtenCall& c) { return Softplus{c.number(1), c.number(2)}; }))
      .define();
  unary_body("mish", "x * tanh(log(1 + e^x)).",
             [](ScalarBuilder& s, const Node&, Scalar x) {
               Scalar soft = s.unary(Prim::log1p, s.unary(Prim::exp, x));
               return s.mul(x, s.unary(Prim::tanh, soft));
             })
      .aten("aten.mish.default")
      .define();
  unary_body("log_sigmoid", "log(1 / (1 + e^-x)), stable at both ends.",
             [](ScalarBuilder& s, const Node&, Scalar x) {
               Scalar zero = s.constant(x.dtype, 0);
               Scalar e = s.unary(Prim::exp, s.unary(Prim::neg, s.unary(Prim::abs, x)));
               return s.sub(s.binary(Prim::min, x, zero), s.unary(Prim::log1p, e));
             })
      .define();
}

}  // namespace gex::ops
