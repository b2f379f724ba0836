// Variance and normalisations: compositions, computed in the compute type and rounded once.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/rows/rows.hpp"
#include "ops/statistics.hpp"

namespace gex::ops {

Ints last_axes(int rank, std::size_t count) {
  Ints axes;
  for (std::int64_t a = rank - static_cast<std::int64_t>(count); a < rank; ++a) axes.push_back(a);
  return axes;
}

Value* wide(Graph& g, Value* x) { return cast(g, x, compute_type(x->type().dtype)); }

Value* element_count(Graph& g, DType dtype, const Shape& shape, const Ints& axes) {
  Dim count = 1;
  for (std::int64_t axis : axes) count *= shape[static_cast<std::size_t>(axis)];
  if (count.is_const()) return scalar(g, dtype, static_cast<double>(count.constant()));
  return cast(g, dim_value(g, count), dtype);
}

Moments moments(Graph& g, Value* x, const Ints& axes, double correction) {
  const DType t = x->type().dtype;
  Value* mean = reduce_mean(g, x, axes, true);
  Value* sum = reduce_sum(g, square(g, sub(g, x, mean)), axes, true);
  Value* count = element_count(g, t, x->type().shape, axes);
  if (correction != 0) count = maximum(g, sub(g, count, correction), scalar(g, t, 0));
  return {mean, div(g, sum, count)};
}

Value* along_channels(Graph& g, Value* per_channel, int rank) {
  Shape shape(static_cast<std::size_t>(std::max(rank - 1, 1)), Dim(1));
  shape[0] = per_channel->type().shape[0];
  return reshape(g, per_channel, shape);
}

namespace {

Ints normed_axes(const Type& x, const Norm& a) {
  return last_axes(x.rank(), static_cast<std::size_t>(a.rank));
}

void require_norm_rank(const InferContext& c, std::int64_t rank) {
  if (rank < 1 || rank > c.in(0).rank()) {
    fail(ErrorCode::invalid_argument, c.op_name, ": rank ", rank, " does not match ", c.in(0));
  }
}

Value* shifted_and_scaled(Graph& g, const Node& n, Value* y, std::size_t weight, std::size_t bias) {
  if (n.has_input(weight)) y = mul(g, y, cast(g, n.input(weight), y->type().dtype));
  if (n.has_input(bias)) y = add(g, y, cast(g, n.input(bias), y->type().dtype));
  return y;
}

struct Normed {
  Value *values, *reciprocal;
};

// x divided by the root of its mean square or variance, and the reciprocal of that root.
Normed over_root(Graph& g, Value* x, Value* variance, const Norm& a) {
  Value* sum = add(g, variance, a.eps);
  if (a.divide) {
    Value* root = sqrt(g, sum);
    return {div(g, x, root), reciprocal(g, root)};
  }
  Value* factor = rsqrt(g, sum);
  return {mul(g, x, factor), factor};
}

std::vector<Value*> expand_layer_norm(Graph& g, const Node& n) {
  const auto a = n.as<Norm>();
  Value* x = wide(g, n.input(0));
  const auto [mean, variance] = moments(g, x, normed_axes(x->type(), a), 0);
  const Normed normed = over_root(g, sub(g, x, mean), variance, a);
  Value* y = shifted_and_scaled(g, n, normed.values, 1, 2);
  return {cast(g, y, n.input(0)->type().dtype), mean, normed.reciprocal};
}

std::vector<Value*> expand_rms_norm(Graph& g, const Node& n) {
  const auto a = n.as<Norm>();
  Value* x = wide(g, n.input(0));
  Value* mean = reduce_mean(g, square(g, x), normed_axes(x->type(), a), true);
  const Normed normed = over_root(g, x, mean, a);
  Value* y = shifted_and_scaled(g, n, normed.values, 1, 2);
  return {cast(g, y, n.input(0)->type().dtype), normed.reciprocal};
}

std::vector<Value*> expand_batch_norm(Graph& g, const Node& n) {
  const int rank = n.input(0)->type().rank();
  Value* x = wide(g, n.input(0));
  const DType t = x->type().dtype;
  auto channel = [&](std::size_t k) { return along_channels(g, cast(g, n.input(k), t), rank); };
  // Eager combines the statistics into one factor and one offset per channel.
  Value* scale = rsqrt(g, add(g, channel(4), n.as<BatchNorm>().eps));
  if (n.has_input(1)) scale = mul(g, channel(1), scale);
  Value* offset = neg(g, mul(g, channel(3), scale));
  if (n.has_input(2)) offset = add(g, channel(2), offset);
  return {cast(g, add(g, mul(g, x, scale), offset), n.input(0)->type().dtype)};
}

std::vector<Type> normed_types(const InferContext& c, std::size_t statistics) {
  require_dtype(c, 0, floating);
  const auto a = c.as<Norm>();
  require_norm_rank(c, a.rank);
  const Shape normed(c.in(0).shape.end() - a.rank, c.in(0).shape.end());
  for (std::size_t k = 1; k < c.inputs.size(); ++k) {
    if (!c.has(k)) continue;
    require_dtype(c, k, floating);
    if (!broadcasts_to(c.in(k).shape, normed, c.op_name))
      fail(ErrorCode::shape_mismatch, c.op_name, ": input ", k, " is ", c.in(k), ", expected ",
           text_of(normed), ", the axes of ", c.in(0), " that are normalised");
  }
  std::vector<Type> types{Type::tensor(c.in(0).dtype, c.in(0).shape)};
  const Shape kept = reduced_shape(c.in(0).shape, normed_axes(c.in(0), a), true);
  types.resize(1 + statistics, Type::tensor(compute_type(c.in(0).dtype), kept));
  return types;
}

std::vector<Value*> expand_variance(Graph& g, const Node& n) {
  const auto a = n.as<Variance>();
  Value* x = wide(g, n.input(0));
  const Shape shape = reduced_shape(x->type().shape, a.axes, a.keepdim);
  const auto m = moments(g, x, a.axes, a.correction);
  const DType t = n.input(0)->type().dtype;
  return {cast(g, reshape(g, m.variance, shape), t), cast(g, reshape(g, m.mean, shape), t)};
}

void register_batch_norm() {
  Definition("batch_norm", "x normalised by given statistics of each channel (axis 1).")
      .in({"x"})
      .optional_in({"weight", "bias"})
      .in({"mean", "variance"})
      .attrs<BatchNorm>()
      .traits(Trait::pure)
      .infer_one([](const InferContext& c) {
        require_dtype(c, 0, floating);
        for (std::size_t k : {1, 2, 3, 4}) {
          if (!c.has(k)) continue;
          if (c.in(0).rank() < 2 || c.in(k).rank() != 1 ||
              !assume_eq(c.in(k).shape[0], c.in(0).shape[1])) {
            fail(ErrorCode::shape_mismatch, "batch_norm: input ", k, " is ", c.in(k),
                 ", expected one value for each channel (axis 1) of ", c.in(0));
          }
        }
        return Type::tensor(c.in(0).dtype, c.in(0).shape);
      })
      .expand(expand_batch_norm)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({s, Dim(3), Dim(2)}), data({Dim(3)}), data({Dim(3)}), data({Dim(3)}),
                         data({Dim(3)})},
                        {},
                        {}};
      })
      .define();
}

}  // namespace

void register_norm() {
  Definition("variance", "Variance and mean over axes, with n - correction as divisor.")
      .in({"x"})
      .out({"variance", "mean"})
      .attrs<Variance>()
      .traits(Trait::pure)
      .infer([](const InferContext& c) {
        require_dtype(c, 0, floating);
        const auto a = c.as<Variance>();
        require_axes(c, a.axes);
        const Type t = Type::tensor(c.in(0).dtype, reduced_shape(c.in(0).shape, a.axes, a.keepdim));
        return std::vector{t, t};
      })
      .expand(expand_variance)
      .sample(matrix_sample({{"axes", Ints{1}}}))
      .define();
  Definition(
      "layer_norm",
      "x normalised over its last `rank` axes, scaled and shifted; also mean and 1/deviation "
      "in the compute type. `divide`: by the deviation, not times its rounded reciprocal.")
      .in({"x"})
      .optional_in({"weight", "bias"})
      .out({"result", "mean", "reciprocal_deviation"})
      .attrs<Norm>()
      .traits(Trait::pure)
      .infer([](const InferContext& c) { return normed_types(c, 2); })
      .expand(expand_layer_norm)
      .sample(
          [] { return OpSample{{data(sample_matrix()), data({Dim(6)}), data({Dim(6)})}, {}, {}}; })
      .define();
  Definition("rms_norm",
             "x over its root mean square of the last `rank` axes, scaled; also 1/rms in the "
             "compute type. `divide`: by the rms, not times its rounded reciprocal.")
      .in({"x"})
      .optional_in({"weight"})
      .out({"result", "reciprocal_rms"})
      .attrs<Norm>()
      .traits(Trait::pure)
      .infer([](const InferContext& c) { return normed_types(c, 1); })
      .expand(expand_rms_norm)
      .sample([] { return OpSample{{data(sample_matrix()), data({Dim(6)})}, {}, {}}; })
      .define();
  register_batch_norm();
}

}  // namespace gex::ops
