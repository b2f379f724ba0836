// Quantised integers: x is about (q - zero_point) * scale, with one scale for the whole tensor or
// one per element of an axis.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/integer_products.hpp"
#include "ops/core/quantised_products.hpp"
#include "ops/core/samples.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

struct Quantise {
  std::int64_t axis = -1;  // of the scales; -1: one scale for all
  std::int64_t low = -128, high = 127;
  DType dtype = DType::i8;
  static constexpr auto fields() {
    return std::tuple{field("axis", &Quantise::axis), field("low", &Quantise::low),
                      field("high", &Quantise::high), field("dtype", &Quantise::dtype)};
  }
};

struct Dequantise {
  std::int64_t axis = -1;
  static constexpr auto fields() { return std::tuple{field("axis", &Dequantise::axis)}; }
};

void require_scales(const InferContext& c, std::int64_t axis) {
  require_dtype(c, 1, [](DType d) { return d == DType::f32 || d == DType::f64; });
  require_dtype(c, 2, [](DType d) { return d == DType::i32 || d == DType::i64; });
  if (axis < -1 || axis >= c.in(0).rank()) {
    fail(ErrorCode::invalid_argument, c.op_name, ": axis ", axis, " is out of range for ", c.in(0));
  }
  for (std::size_t k : {1, 2}) {
    const Shape& shape = c.in(k).shape;
    const bool fits = axis < 0
                          ? shape.empty()
                          : shape.size() == 1 &&
                                assume_eq(shape[0], c.in(0).shape[static_cast<std::size_t>(axis)]);
    if (!fits) {
      fail(ErrorCode::shape_mismatch, c.op_name, ": input ", k, " is ", c.in(k),
           axis < 0 ? "; one scale and zero point have no axes" : "; it needs one entry for each",
           axis < 0 ? "" : str(" element of axis ", axis, " of ", c.in(0)));
    }
  }
}

// Scale or zero point of the element at p.
Scalar parameter(BodyContext& c, int k, std::int64_t axis, Indices p, DType dtype) {
  std::vector<Dim> at;
  if (axis >= 0) at.push_back(p[static_cast<std::size_t>(axis)]);
  return c.s.cast(c.in(k, at), dtype);
}

Scalar quantise_body(BodyContext& c, int, Indices p) {
  const auto a = c.node.as<Quantise>();
  const DType t = promote(compute_type(c.in_type(0).dtype), c.in_type(1).dtype);
  const Scalar inverse = c.s.div(c.s.constant(t, 1), parameter(c, 1, a.axis, p, t));
  Scalar q = c.s.unary(Prim::round, c.s.mul(c.s.cast(c.in(0, p), t), inverse));
  q = c.s.add(q, parameter(c, 2, a.axis, p, t));
  q = c.s.binary(Prim::max, q, c.s.constant(t, static_cast<double>(a.low)));
  q = c.s.binary(Prim::min, q, c.s.constant(t, static_cast<double>(a.high)));
  return c.s.cast(q, a.dtype);
}

Scalar dequantise_body(BodyContext& c, int, Indices p) {
  const std::int64_t axis = c.node.as<Dequantise>().axis;
  const DType t = c.out_type().dtype;
  const Scalar q = c.s.sub(c.s.cast(c.in(0, p), t), parameter(c, 2, axis, p, t));
  return c.s.mul(q, parameter(c, 1, axis, p, t));
}

// --- rows: quantized_decomposed, as torch.export quantises models -----------------------------

// A number or a tensor with one element, as a 0-d tensor.
Value* single(AtenCall& c, std::size_t i, DType dtype) {
  return reshape(c.graph(), operand(c, i, dtype), {});
}

Value* zero_points(AtenCall& c, Value* scales, std::size_t i) {
  if (!c.none(i)) return cast(c.graph(), c.tensor(i), DType::i64);
  return full(c.graph(), DType::i64, 0, scales->type().shape);
}

DType scale_type(const AtenCall& c, std::size_t i) {
  return c.arg(i).is_tensor() && c.tensor(i)->type().dtype == DType::f64 ? DType::f64 : DType::f32;
}

// x, scale, zero_point, quant_min, quant_max, dtype
std::vector<Value*> quantise_tensor(AtenCall& c) {
  // Eager multiplies by the reciprocal taken in double.
  if (!c.arg(1).is_tensor() && !c.is_constant_number(1)) return {};
  Value* scale = single(c, 1, scale_type(c, 1));
  const Quantise a{-1, c.integer(3), c.integer(4), c.result().dtype};
  return one(apply(c.graph(), "quantise", {c.tensor(0), scale, single(c, 2, DType::i64)}, a));
}

std::vector<Value*> dequantise_tensor(AtenCall& c) {
  Value* scale = single(c, 1, scale_type(c, 1));
  Value* y =
      apply(c.graph(), "dequantise", {c.tensor(0), scale, single(c, 2, DType::i64)}, Dequantise{});
  return one(to_result(c, y));
}

// x, scales, zero_points, axis, quant_min, quant_max, dtype
std::vector<Value*> quantise_channels(AtenCall& c) {
  Value* scales = tensor_as(c, 1, scale_type(c, 1));
  const Quantise a{normal_axis(c.integer(3), c.tensor(0)->type().rank()), c.integer(4),
                   c.integer(5), c.result().dtype};
  return one(apply(c.graph(), "quantise", {c.tensor(0), scales, zero_points(c, scales, 2)}, a));
}

std::vector<Value*> dequantise_channels(AtenCall& c) {
  Value* scales = tensor_as(c, 1, scale_type(c, 1));
  const Dequantise a{normal_axis(c.integer(3), c.tensor(0)->type().rank())};
  Value* y = apply(c.graph(), "dequantise", {c.tensor(0), scales, zero_points(c, scales, 2)}, a);
  return one(to_result(c, y));
}

// Scales have their own dtype.
std::function<OpSample()> scaled_sample(const char* name) {
  return [name] {
    return OpSample{{data(sample_matrix()), index_data({Dim(6)}), index_data({Dim(6)})},
                    {},
                    [name](Graph& g, const std::vector<Value*>& v) {
                      Value* scale = add(g, cast(g, abs(g, v[1]), DType::f32), 1);
                      Node* node = g.add(name, {v[0], scale, v[2]}, {{"axis", std::int64_t{1}}});
                      return std::vector<Value*>{node->output()};
                    }};
  };
}

}  // namespace

void register_quantise() {
  register_integer_products();
  register_quantised_products();
  Definition("quantise", "round(x / scale) + zero_point, between low and high, as integers.")
      .in({"x", "scale", "zero_point"})
      .attrs<Quantise>()
      .traits(Trait::pure)
      .infer_one([](const InferContext& c) {
        const auto a = c.as<Quantise>();
        require_dtype(c, 0, floating);
        require_scales(c, a.axis);
        if (!is_int(a.dtype)) {
          fail(ErrorCode::type_mismatch, "quantise: dtype ", a.dtype, " is not an integer");
        }
        return Type::tensor(a.dtype, c.in(0).shape);
      })
      .map(quantise_body)
      .sample(scaled_sample("quantise"))
      .define();
  Definition("dequantise", "(x - zero_point) * scale, in the dtype of the scale.")
      .in({"x", "scale", "zero_point"})
      .attrs<Dequantise>()
      .traits(Trait::pure)
      .infer_one([](const InferContext& c) {
        require_dtype(c, 0, [](DType d) { return is_int(d); });
        require_scales(c, c.as<Dequantise>().axis);
        return Type::tensor(c.in(1).dtype, c.in(0).shape);
      })
      .map(dequantise_body)
      .sample(scaled_sample("dequantise"))
      .define();
  for (const char* form : {"default", "tensor"}) {
    register_aten_row(str("quantized_decomposed.quantize_per_tensor.", form), quantise_tensor);
    register_aten_row(str("quantized_decomposed.dequantize_per_tensor.", form), dequantise_tensor);
  }
  register_aten_row("quantized_decomposed.quantize_per_channel.default", quantise_channels);
  register_aten_row("quantized_decomposed.dequantize_per_channel.default", dequantise_channels);
}

}  // namespace gex::ops
