// Counter-based random numbers: element i of a draw depends only on the key, the stream number and
// i, so the bits are the same on every device and for every tiling.

#include <cmath>
#include <numbers>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/random.hpp"

namespace gex::ops {

namespace {

Type random_type(const InferContext& c) {
  const auto a = c.as<Random>();
  if (c.in(0).dtype != DType::i64 || c.in(0).rank() != 0 || !is_float(a.dtype)) {
    fail(ErrorCode::type_mismatch, c.op_name, ": the key is ", c.in(0), " and the dtype ", a.dtype,
         "; expected i64[] and a float");
  }
  return Type::tensor(a.dtype, a.shape);
}

Scalar word(BodyContext& c, Dim block, Dim which) {
  constexpr std::int64_t kBlocksInStream = std::int64_t{1} << 40;
  const Dim counter = block + Dim(c.node.as<Random>().stream) * Dim(kBlocksInStream);
  const Scalar key = c.in(0, {});
  const Scalar args[] = {key, c.s.index(counter), c.s.index(which)};
  return c.s.prim(Prim::philox, args);
}

// The upper `bits` of a 32-bit word as a fraction in [0, 1), exact in `dtype`.
Scalar fraction(ScalarBuilder& s, Scalar word, int bits, DType dtype) {
  const Scalar upper = s.binary(Prim::shr, word, s.constant_int(DType::i64, 32 - bits));
  return s.mul(s.cast(upper, dtype), s.constant(dtype, std::ldexp(1.0, -bits)));
}

int mantissa_bits(DType d) {
  return d == DType::f64 ? 32 : d == DType::f32 ? 24 : d == DType::f16 ? 11 : 8;
}

Scalar uniform_body(BodyContext& c, int, Indices i) {
  const auto a = c.node.as<Random>();
  const Dim at = linearise(i, a.shape);
  const Scalar w = word(c, floordiv(at, 4), mod(at, 4));
  return c.s.cast(fraction(c.s, w, mantissa_bits(a.dtype), compute_type(a.dtype)), a.dtype);
}

// Box-Muller: neighbours share two words and take the cosine and the sine.
Scalar normal_body(BodyContext& c, int, Indices i) {
  const auto a = c.node.as<Random>();
  const DType t = compute_type(a.dtype);
  ScalarBuilder& s = c.s;
  const Dim at = linearise(i, a.shape);
  const Dim pair = floordiv(mod(at, 4), 2) * 2;
  const Scalar u = fraction(s, word(c, floordiv(at, 4), pair), 24, t);
  const Scalar v = fraction(s, word(c, floordiv(at, 4), pair + 1), 24, t);
  const Scalar above_zero = s.add(u, s.constant(t, std::ldexp(1.0, -24)));
  const Scalar radius =
      s.unary(Prim::sqrt, s.mul(s.constant(t, -2), s.unary(Prim::log, above_zero)));
  const Scalar angle = s.mul(v, s.constant(t, 2 * std::numbers::pi));
  const Scalar even = s.binary(Prim::eq, s.index(mod(at, 2)), s.constant_int(DType::i64, 0));
  const Scalar side = s.select(even, s.unary(Prim::cos, angle), s.unary(Prim::sin, angle));
  return s.cast(s.mul(radius, side), a.dtype);
}

void require_key(const InferContext& c, std::size_t input) {
  if (c.in(input).dtype != DType::i64 || c.in(input).rank() != 0)
    fail(ErrorCode::type_mismatch, c.op_name, ": the key is ", c.in(input), ", expected i64[]");
}

Type bernoulli_type(const InferContext& c) {
  require_dtype(c, 0, floating);
  require_key(c, 1);
  return Type::tensor(c.in(0).dtype, c.in(0).shape);
}

std::vector<Value*> expand_bernoulli(Graph& g, const Node& n) {
  const Type& type = n.output()->type();
  Value* u = apply(g, "random_uniform", {n.input(1)},
                   Random{DType::f32, type.shape, n.as<Bernoulli>().stream});
  return {cast(g, lt(g, u, cast(g, n.input(0), DType::f32)), type.dtype)};
}

std::vector<Type> dropout_types(const InferContext& c) {
  require_dtype(c, 0, floating);
  require_key(c, 1);
  const double p = c.as<Dropout>().p;
  if (!(p >= 0 && p <= 1))
    fail(ErrorCode::invalid_argument, "dropout: p is ", p, ", expected a probability in [0, 1]");
  return {Type::tensor(c.in(0).dtype, c.in(0).shape), Type::tensor(DType::boolean, c.in(0).shape)};
}

std::vector<Value*> expand_dropout(Graph& g, const Node& n) {
  const DroppedOut dropped = dropped_out(g, n.input(0), n.input(1), n.as<Dropout>());
  return {cast(g, dropped.result, n.output(0)->type().dtype), dropped.kept};
}

}  // namespace

DroppedOut dropped_out(Graph& g, Value* x, Value* key, const Dropout& attrs) {
  const DType t = compute_type(x->type().dtype);
  Value* u = apply(g, "random_uniform", {key}, Random{DType::f32, x->type().shape, attrs.stream});
  Value* kept = ge(g, u, scalar(g, DType::f32, attrs.p));
  // As in eager: multiplied by the mask, so that dropped infinities and NaNs show.
  Value* masked = mul(g, cast(g, x, t), cast(g, kept, t));
  return {mul(g, masked, attrs.p == 1 ? 0 : 1 / (1 - attrs.p)), kept};
}

void register_random() {
  Definition("random_uniform", "Uniform numbers in [0, 1).")
      .in({"key"})
      .attrs<Random>()
      .traits(Trait::pure | Trait::random)
      .infer_one(random_type)
      .map(uniform_body)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{key_data()}, {{"shape", Dims{s, Dim(5)}}}, {}};
      })
      .define();
  Definition("random_normal", "Normal numbers with mean 0 and deviation 1.")
      .in({"key"})
      .attrs<Random>()
      .traits(Trait::pure | Trait::random)
      .infer_one(random_type)
      .map(normal_body)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{key_data()}, {{"shape", Dims{s, Dim(5)}}}, {}};
      })
      .define();
  Definition("bernoulli", "1 with probability p, else 0, for each element of p.")
      .in({"p", "key"})
      .attrs<Bernoulli>()
      .traits(Trait::pure | Trait::random)
      .infer_one(bernoulli_type)
      .expand(expand_bernoulli)
      .sample([] {
        return OpSample{{data(sample_matrix()), key_data()}, {{"stream", std::int64_t{3}}}, {}};
      })
      .define();
  Definition("dropout",
             "x with elements zeroed by probability p and the others times 1/(1 - p); also which "
             "ones were kept.")
      .in({"x", "key"})
      .out({"result", "kept"})
      .attrs<Dropout>()
      .traits(Trait::pure | Trait::random)
      .infer(dropout_types)
      .expand(expand_dropout)
      .sample([] { return OpSample{{data(sample_matrix()), key_data()}, {{"p", 0.3}}, {}}; })
      .define();
}

}  // namespace gex::ops
