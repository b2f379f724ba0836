// Normalisations and Dropout.

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/random.hpp"
#include "ops/random.hpp"

namespace gex::onnx {
namespace {

Ints axes_from(std::int64_t first, int rank) {
  Ints axes;
  for (std::int64_t d = first; d < rank; ++d) axes.push_back(d);
  return axes;
}

// A tensor with one element for each channel, along axis 1 of a tensor with `rank` axes.
Expr by_channel(Expr x, int rank) {
  Shape shape(static_cast<std::size_t>(rank), Dim(1));
  shape[1] = x.shape()[0];
  return reshape(x, shape);
}

struct Moments {
  Expr mean, variance;
};
Moments moments(Expr x, const Ints& axes) {
  Expr m = mean(x, axes, true);
  Expr centred = x - m;
  return {m, mean(centred * centred, axes, true)};
}

Items batch_norm(Row& r) {
  Expr x = wide(r, 0);
  const int rank = r.rank();
  const double eps = r.float_attr("epsilon", 1e-5f);
  const auto channel = [&](std::size_t i) { return by_channel(expr(r, i).to(x.dtype()), rank); };
  const bool training = r.opset >= 14 ? r.int_attr("training_mode", 0) != 0 : r.num_outputs() > 1;
  if (!training) {  // the op that passes know, and fold into convolutions
    ops::BatchNorm attrs;
    attrs.eps = eps;
    return r.one(
        ops::apply(r.g, "batch_norm", {r.in(0), r.in(1), r.in(2), r.in(3), r.in(4)}, attrs));
  }
  Expr mean_ = channel(3), variance = channel(4);
  Items extra;
  if (training) {
    Ints axes{0};
    for (int d = 2; d < rank; ++d) axes.push_back(d);
    const Moments m = moments(x, axes);
    const double keep = r.float_attr("momentum", 0.9f);
    const auto running = [&](std::size_t i, Expr now) {
      Expr flat = reshape(now, {x.shape()[1]}).to(r.dtype(i));
      return Item::tensor(expr(r, i) * keep + flat * (1 - keep), r.elem(i));
    };
    extra = {running(3, m.mean), running(4, m.variance)};
    mean_ = m.mean;
    variance = m.variance;
  }
  Expr y = (x - mean_) / sqrt(variance + eps) * channel(1) + channel(2);
  Items items = r.one(y.to(r.dtype()));
  items.insert(items.end(), extra.begin(), extra.end());
  return items;
}

Items instance_norm(Row& r) {
  Expr x = wide(r, 0);
  const Moments m = moments(x, axes_from(2, r.rank()));
  Expr y = (x - m.mean) / sqrt(m.variance + r.float_attr("epsilon", 1e-5f));
  y = y * by_channel(expr(r, 1).to(x.dtype()), r.rank()) +
      by_channel(expr(r, 2).to(x.dtype()), r.rank());
  return r.one(y.to(r.dtype()));
}

Items layer_norm(Row& r) {
  Expr x = wide(r, 0);
  const std::int64_t axis = r.axis_attr("axis", -1, r.rank());
  const Moments m = moments(x, axes_from(axis, r.rank()));
  Expr inverse = 1.0 / sqrt(m.variance + r.float_attr("epsilon", 1e-5f));
  Expr y = ((x - m.mean) * inverse).to(r.dtype()).to(x.dtype());
  y = y * expr(r, 1).to(x.dtype());
  if (r.has(2)) y = y + expr(r, 2).to(x.dtype());
  const Elem stash = x.dtype() == DType::f64 ? Elem::f64 : Elem::f32;
  return {Item::tensor(y.to(r.dtype()), r.elem()), Item::tensor(m.mean, stash),
          Item::tensor(inverse, stash)};
}

Items rms_norm(Row& r) {
  Expr x = wide(r, 0);
  const std::int64_t axis = r.axis_attr("axis", -1, r.rank());
  Expr square = mean(x * x, axes_from(axis, r.rank()), true);
  Expr y = x / sqrt(square + r.float_attr("epsilon", 1e-5f));
  return r.one((y.to(r.dtype()).to(x.dtype()) * expr(r, 1).to(x.dtype())).to(r.dtype()));
}

Items group_norm(Row& r) {
  Expr x = wide(r, 0);
  const Shape s = r.shape();
  const Dim groups = r.int_attr("num_groups", 1);
  const Shape inner(s.begin() + 2, s.end());
  const Dim channels = floordiv(s[1], groups);
  Expr flat = reshape(x, {s[0], groups, channels * product(inner)});
  const Moments m = moments(flat, {2});
  Expr y = (flat - m.mean) / sqrt(m.variance + r.float_attr("epsilon", 1e-5f));
  const bool for_groups = r.opset < 21;
  const auto parameter = [&](std::size_t i) { return expr(r, i).to(x.dtype()); };
  if (for_groups) {
    y = y * by_channel(parameter(1), 3) + by_channel(parameter(2), 3);
    return r.one(reshape(y, s).to(r.dtype()));
  }
  y = reshape(y, s) * by_channel(parameter(1), r.rank()) + by_channel(parameter(2), r.rank());
  return r.one(y.to(r.dtype()));
}

Items lp_norm(Row& r) {
  Expr x = wide(r, 0);
  const std::int64_t axis = r.axis_attr("axis", -1, r.rank());
  Expr norm = r.int_attr("p", 2) == 1 ? sum(abs(x), {axis}, true) : sqrt(sum(x * x, {axis}, true));
  return r.one(where(norm == 0, x.number(0), x / norm).to(r.dtype()));
}

Items local_response_norm(Row& r) {
  Expr x = wide(r, 0);
  const std::int64_t size = r.int_attr("size", 1);
  Dims low(x.shape().size()), high = low;
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - (size - 1) / 2;
  Expr squares(r.g, ops::pad(r.g, x * x, low, high, 0));
  Expr total = slice(squares, 1, 0, x.shape()[1]);
  for (std::int64_t k = 1; k < size; ++k) total = total + slice(squares, 1, k, x.shape()[1]);
  const double alpha = r.float_attr("alpha", 1e-4f) / static_cast<double>(size);
  Expr base = total * alpha + r.float_attr("bias", 1);
  return r.one((x / binary("pow", base, base.number(r.float_attr("beta", 0.75)))).to(r.dtype()));
}

Items mean_variance_norm(Row& r) {
  Expr x = wide(r, 0);
  const Moments m = moments(x, r.ints_attr("axes", {0, 2, 3}));
  return r.one(((x - m.mean) / (sqrt(m.variance) + 1e-9)).to(r.dtype()));
}

// In inference, and in training with ratio 0, nothing is dropped.
Items dropout(Row& r) {
  bool training = false;
  double ratio = r.float_attr("ratio", 0.5);
  if (r.opset >= 12) {
    training = r.has(2) && r.number(2, "training_mode").get_int(0) != 0;
    if (training) ratio = r.has(1) ? r.number(1, "ratio").get(0) : 0.5;
  }
  if (training && ratio != 0) {
    const ops::Dropout attrs{ratio, 0};
    const ops::DroppedOut dropped = ops::dropped_out(r.g, r.in(0), random_key(r), attrs);
    return {Item::tensor(ops::cast(r.g, dropped.result, r.dtype()), r.elem()),
            Item::tensor(dropped.kept, Elem::boolean)};
  }
  Value* mask = ops::full(r.g, DType::boolean, 1, r.shape());
  const bool float_mask = r.opset < 10;
  return {Item::tensor(r.in(0), r.elem()),
          Item::tensor(float_mask ? ops::cast(r.g, mask, r.dtype()) : mask,
                       float_mask ? r.elem() : Elem::boolean)};
}

}  // namespace

void add_norm_rows() {
  add_row("BatchNormalization", batch_norm);
  add_row("InstanceNormalization", instance_norm);
  add_row("LayerNormalization", layer_norm);
  add_row("RMSNormalization", rms_norm);
  add_row("GroupNormalization", group_norm);
  add_row("LpNormalization", lp_norm);
  add_row("LRN", local_response_norm);
  add_row("MeanVarianceNormalization", mean_variance_norm);
  add_row("Dropout", dropout);
}

}  // namespace gex::onnx
