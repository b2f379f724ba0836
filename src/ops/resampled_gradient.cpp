// As in PyTorch: the gradient of each result is distributed over the neighbours that it read, by
// their weights.

#include "ops/resampled_gradient.hpp"

namespace gex::ops {

namespace {

// A neighbour of each position: its index (i64) and weight; null: 1.
struct WeightedPlace {
  Value* at;
  Value* weight;
};

class Places {
 public:
  Places(Graph& g, const AxisResampling& form, Dim in, Dim out, DType dtype)
      : g_(g), t_(dtype), last_(dim_value(g, in - 1)), at_(cast(g, iota(g, out), dtype)) {
    Value* scale = nullptr;
    if (form.align_corners)
      scale = div(g, size(in - 1), size(max(out - 1, 1)));
    else
      scale = form.scale > 0 ? number(1 / form.scale) : div(g, size(in), size(out));
    if (form.mode == "nearest") {
      at_ = mul(g, at_, scale);
    } else if (form.mode == "nearest_exact") {
      at_ = mul(g, add(g, at_, 0.5), scale);
    } else {
      at_ = form.align_corners ? mul(g, scale, at_) : sub(g, mul(g, scale, add(g, at_, 0.5)), 0.5);
    }
  }

  std::vector<WeightedPlace> neighbours(const std::string& mode) {
    if (mode == "linear") return linear();
    if (mode == "cubic") return cubic();
    return {{clamped(floor(g_, at_)), nullptr}};
  }

 private:
  Value* number(double value) { return scalar(g_, t_, value); }
  Value* size(Dim d) { return cast(g_, dim_value(g_, d), t_); }
  Value* clamped(Value* x) {
    Value* index = maximum(g_, cast(g_, x, DType::i64), scalar_int(g_, DType::i64, 0));
    return minimum(g_, index, last_);
  }
  Value* share(Value* x, Value* before) {
    return minimum(g_, relu(g_, sub(g_, x, before)), number(1));
  }

  std::vector<WeightedPlace> linear() {
    Value* x = relu(g_, at_);
    Value* before = minimum(g_, floor(g_, x), cast(g_, last_, t_));
    Value* after_share = share(x, before);
    return {{clamped(before), sub(g_, number(1), after_share)},
            {clamped(add(g_, before, 1)), after_share}};
  }

  std::vector<WeightedPlace> cubic() {
    Value* before = floor(g_, at_);
    Value* after_share = share(at_, before);
    Value* rest = sub(g_, number(1), after_share);
    Value* weights[] = {far(add(g_, after_share, 1)), near(after_share), near(rest),
                        far(add(g_, rest, 1))};
    std::vector<WeightedPlace> all;
    for (int k = 0; k < 4; ++k) all.push_back({clamped(add(g_, before, k - 1)), weights[k]});
    return all;
  }

  // Keys' kernel, as in interpolate.cpp.
  static constexpr double kSlope = -0.75;
  Value* near(Value* x) {
    Value* inner = sub(g_, mul(g_, x, kSlope + 2), kSlope + 3);
    return add(g_, mul(g_, mul(g_, inner, x), x), 1);
  }
  Value* far(Value* x) {
    Value* y = sub(g_, mul(g_, x, kSlope), 5 * kSlope);
    y = add(g_, mul(g_, y, x), 8 * kSlope);
    return sub(g_, mul(g_, y, x), 4 * kSlope);
  }

  Graph& g_;
  DType t_;
  Value* last_;
  Value* at_;  // in the coordinates of the input
};

}  // namespace

Value* resampled_gradient(Graph& g, Value* grad, std::size_t axis, Dim in,
                          const AxisResampling& form) {
  const DType t = grad->type().dtype;
  Shape shape = grad->type().shape;
  const Dim out = shape[axis];
  shape[axis] = in;
  const bool nearest = form.mode == "nearest" || form.mode == "nearest_exact";
  if (in == out && nearest) return grad;
  // A second neighbour is read at the same position with weight 0: for infinities that gives NaN.
  if (in == out && form.mode == "linear") return add(g, grad, mul(g, grad, 0.0));
  Value* sum = full(g, t, 0, shape);
  // Weights lie along the axis.
  Shape along(shape.size() - axis, 1);
  along[0] = out;
  // Places in f32, as PyTorch has them, or f64 for f64.
  for (const WeightedPlace& n :
       Places(g, form, in, out, nearest ? DType::f32 : t).neighbours(form.mode)) {
    Value* part = n.weight == nullptr ? grad : mul(g, grad, reshape(g, n.weight, along));
    sum = index_put(g, sum, part, {n.at}, {static_cast<std::int64_t>(axis)}, "add");
  }
  return sum;
}

}  // namespace gex::ops
