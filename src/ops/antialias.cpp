// ATen rows of resampling with antialiasing: where an axis shrinks, the filter is wider by the same
// factor. Each result is a weighted mean of a window of the axis.

#include "ops/antialias.hpp"

#include <algorithm>
#include <cmath>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

struct Filter {
  const char* name;
  double reach;  // on both sides, for axes that do not shrink
  Value* (*at)(Graph& g, Value* distance);
};

Value* triangle(Graph& g, Value* d) { return relu(g, sub(g, scalar(g, d->type().dtype, 1), d)); }

// Keys' cubic with a = -0.5.
Value* cubic(Graph& g, Value* d) {
  const DType t = d->type().dtype;
  constexpr double a = -0.5;
  Value* square_of_d = square(g, d);
  Value* near = add(g, mul(g, sub(g, mul(g, d, a + 2), a + 3), square_of_d), 1);
  Value* far = mul(g, sub(g, mul(g, add(g, mul(g, sub(g, d, 5), d), 8), d), 4), a);
  Value* outer = where(g, lt(g, d, scalar(g, t, 2)), far, scalar(g, t, 0));
  return where(g, lt(g, d, scalar(g, t, 1)), near, outer);
}

constexpr Filter kFilters[] = {{"bilinear", 1, triangle}, {"bicubic", 2, cubic}};

// One axis of `in` elements resampled to `out`.
class AntialiasedAxis {
 public:
  AntialiasedAxis(Graph& g, const Filter& filter, std::int64_t in, std::int64_t out, double scale,
                  DType t)
      : g_(g), filter_(filter), in_(in), t_(t) {
    const double support = filter.reach * std::max(scale, 1.0);
    taps_ = std::min(in, static_cast<std::int64_t>(std::ceil(support)) * 2 + 1);
    inverse_ = 1 / std::max(scale, 1.0);
    Value* place = unsqueeze(g, cast(g, iota(g, out), t), 1);
    center_ = mul(g, add(g, place, 0.5), scale);
    first_ = relu(g, floor(g, add(g, center_, 0.5 - support)));
    end_ =
        minimum(g, floor(g, add(g, center_, 0.5 + support)), scalar(g, t, static_cast<double>(in)));
  }

  // Only elements inside a window are read, so that one NaN does not spread over the axis.
  Value* resampled(Value* x, std::int64_t axis) {
    Value* at = window();
    Value* elements = take(g_, swap_axes(g_, x, axis, -1), index(at), x->type().rank() - 1);
    elements = where(g_, lt(g_, at, end_), elements, scalar(g_, t_, 0));
    Value* sums = reduce_sum(g_, mul(g_, elements, weights_at(at)), {elements->type().rank() - 1});
    return swap_axes(g_, sums, axis, -1);
  }

  // An infinite gradient reaches only the elements of its window.
  Value* gradient(Value* grad, std::int64_t axis) {
    Value* at = window();
    Value* last = unsqueeze(g_, swap_axes(g_, grad, axis, -1), -1);  // [..., out, 1]
    Value* parts = where(g_, lt(g_, at, end_), mul(g_, last, weights_at(at)), scalar(g_, t_, 0));
    Shape shape(parts->type().shape.begin(), parts->type().shape.end() - 2);
    shape.push_back(in_);
    const auto rank = static_cast<std::int64_t>(shape.size());
    Value* sums = index_put(g_, full(g_, t_, 0, shape), parts, {index(at)}, {rank - 1}, "add");
    return swap_axes(g_, sums, axis, -1);
  }

 private:
  // Indices of the axis that a result may read: [out, taps].
  Value* window() { return add(g_, first_, cast(g_, iota(g_, taps_), t_)); }
  Value* index(Value* at) {
    return minimum(g_, cast(g_, at, DType::i64), scalar_int(g_, DType::i64, in_ - 1));
  }

  Value* weights_at(Value* at) {
    Value* distance = mul(g_, abs(g_, add(g_, sub(g_, at, center_), 0.5)), inverse_);
    Value* weights = where(g_, lt(g_, at, end_), filter_.at(g_, distance), scalar(g_, t_, 0));
    return div(g_, weights, reduce_sum(g_, weights, {1}, true));
  }

  Graph& g_;
  const Filter& filter_;
  std::int64_t in_, taps_;
  DType t_;
  double inverse_;
  Value *center_, *first_, *end_;
};

double scale_of(std::int64_t in, std::int64_t out, bool align_corners, double wanted) {
  if (align_corners)
    return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  return wanted > 0 ? 1 / wanted : static_cast<double>(in) / static_cast<double>(out);
}

// The axes [H, W] of images `in` and `out`; nothing if a size is unknown.
std::vector<AntialiasedAxis> axes_of(AtenCall& c, const Filter& filter, const Shape& in,
                                     const Shape& out, bool align_corners, std::size_t scales) {
  const DType t = c.result().dtype;
  std::vector<AntialiasedAxis> axes;
  if (t != DType::f32 && t != DType::f64) return axes;
  for (std::size_t k = 0; k < 2; ++k) {
    const auto from = in[2 + k].as_const(), to = out[2 + k].as_const();
    if (!from || !to || *from < 1 || *to < 1) return {};
    const double wanted = c.none(scales + k) ? 0 : c.number(scales + k);
    axes.emplace_back(c.graph(), filter, *from, *to, scale_of(*from, *to, align_corners, wanted),
                      t);
  }
  return axes;
}

AtenImport forward(const Filter& filter) {  // x, output_size, align_corners, scale of H, of W
  return [&filter](AtenCall& c) -> std::vector<Value*> {
    Value* x = c.tensor(0);
    auto axes = axes_of(c, filter, x->type().shape, c.result().shape, c.flag(2), 3);
    if (axes.empty()) return {};
    return one(to_result(c, axes[0].resampled(axes[1].resampled(x, 3), 2)));
  };
}

// grad, output_size, input_size, align_corners, scale of H, of W
AtenImport backward(const Filter& filter) {
  return [&filter](AtenCall& c) -> std::vector<Value*> {
    Value* grad = c.tensor(0);
    auto axes = axes_of(c, filter, c.result().shape, grad->type().shape, c.flag(3), 4);
    if (axes.empty()) return {};
    return one(to_result(c, axes[1].gradient(axes[0].gradient(grad, 2), 3)));
  };
}

}  // namespace

void register_antialias_rows() {
  for (const Filter& filter : kFilters) {
    const std::string name = str("aten._upsample_", filter.name, "2d_aa");
    register_aten_row(name + ".default", forward(filter));
    register_aten_row(name + "_backward.default", backward(filter));
  }
}

}  // namespace gex::ops
