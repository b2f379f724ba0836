// Random numbers from gex's own generator: they differ from those of other engines for the same
// seed.

#include <bit>
#include <random>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/random.hpp"
#include "ops/random.hpp"

namespace gex::onnx {

Value* random_key(const Row& r) {
  if (r.has_attr("seed")) {
    const auto seed = std::bit_cast<std::int64_t>(r.float_attr("seed", 0));
    return ops::scalar_int(r.g, DType::i64, seed);
  }
  // Separate nodes have separate keys, because equal calls would be merged.
  const std::string key = r.node.outputs.empty() ? r.node.name : r.node.outputs[0];
  return r.host_call("key " + key, {}, {Type::tensor(DType::i64, {})},
                     [](std::span<const HostTensor>, std::span<const std::int64_t>) {
                       thread_local std::mt19937_64 generator{std::random_device{}()};
                       HostTensor out(DType::i64, {});
                       out.set_int(0, static_cast<std::int64_t>(generator() >> 1));
                       return std::vector{std::move(out)};
                     })[0];
}

namespace {

Items drawn(Row& r, const char* op, const Dims& shape, Elem elem) {
  const DType t = storage_dtype(elem);
  if (!is_float(elem)) r.refuse(str("random numbers of ", name_of(elem)));
  const bool uniform = op == std::string("random_uniform");
  const DType w = compute_type(t);
  Expr x(r.g, ops::apply(r.g, op, {random_key(r)}, ops::Random{w, shape, 0}));
  if (uniform) {
    const double low = r.float_attr("low", 0), high = r.float_attr("high", 1);
    return r.one((x * (high - low) + low).to(t), elem);
  }
  return r.one((x * r.float_attr("scale", 1) + r.float_attr("mean", 0)).to(t), elem);
}

Items drawn_like(Row& r, const char* op) {
  const Elem own = is_float(r.elem()) ? r.elem() : Elem::f32;
  const auto elem = static_cast<Elem>(r.int_attr("dtype", static_cast<int>(own)));
  return drawn(r, op, r.shape(), elem);
}

Items drawn_shape(Row& r, const char* op) {
  Dims shape;
  for (const std::int64_t d : r.ints_attr("shape")) shape.emplace_back(d);
  return drawn(r, op, shape, static_cast<Elem>(r.int_attr("dtype", 1)));
}

Items bernoulli(Row& r) {
  const auto elem = static_cast<Elem>(r.int_attr("dtype", static_cast<int>(r.elem())));
  Expr u(r.g,
         ops::apply(r.g, "random_uniform", {random_key(r)}, ops::Random{DType::f32, r.shape(), 0}));
  return r.one((u < expr(r, 0).to(DType::f32)).to(storage_dtype(elem)), elem);
}

// Log-probabilities [batch, classes]: the class with the largest sum of it and Gumbel noise.
Items multinomial(Row& r) {
  const auto elem = static_cast<Elem>(r.int_attr("dtype", 6));
  const Dim count = r.int_attr("sample_size", 1);
  Expr x = expr(r, 0).to(DType::f32);
  const Shape shape{x.shape()[0], count, x.shape()[1]};
  Expr u(r.g,
         ops::apply(r.g, "random_uniform", {random_key(r)}, ops::Random{DType::f32, shape, 0}));
  Expr noise = -log(-log(max(u, 1e-37)));
  return r.one(Expr(r.g, ops::argmax(r.g, unsqueeze(x, 1) + noise, {2})).to(storage_dtype(elem)),
               elem);
}

}  // namespace

void add_random_rows() {
  add_row("RandomUniform", [](Row& r) { return drawn_shape(r, "random_uniform"); });
  add_row("RandomNormal", [](Row& r) { return drawn_shape(r, "random_normal"); });
  add_row("RandomUniformLike", [](Row& r) { return drawn_like(r, "random_uniform"); });
  add_row("RandomNormalLike", [](Row& r) { return drawn_like(r, "random_normal"); });
  add_row("Bernoulli", bernoulli);
  add_row("Multinomial", multinomial);
}

}  // namespace gex::onnx
