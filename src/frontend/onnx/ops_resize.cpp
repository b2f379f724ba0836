// Resize and Upsample: one axis after another, each a weighted sum of a few elements.

#include <algorithm>
#include <cmath>

#include "frontend/onnx/expr.hpp"

namespace gex::onnx {
namespace {

// How one axis is resampled.
struct Axis {
  std::int64_t in = 0, out = 0;
  double scale = 1;
  double length = 0;  // of the result before rounding
  double roi_start = 0, roi_end = 1;
};

struct Mode {
  std::string kind, coordinates, nearest;
  double a = -0.75;  // of the cubic
  bool antialias = false, exclude_outside = false;
};

double source_of(const Axis& x, const Mode& m, std::int64_t place) {
  const auto p = static_cast<double>(place), in = static_cast<double>(x.in);
  const auto out = static_cast<double>(x.out);
  if (m.coordinates == "align_corners") return x.out == 1 ? 0 : p * (in - 1) / (x.length - 1);
  if (m.coordinates == "asymmetric") return p / x.scale;
  if (m.coordinates == "tf_half_pixel_for_nn") return (p + 0.5) / x.scale;
  if (m.coordinates == "pytorch_half_pixel") return x.length > 1 ? (p + 0.5) / x.scale - 0.5 : 0;
  if (m.coordinates == "half_pixel_symmetric") {
    const double adjustment = out / x.length, centre = in / 2;
    return centre * (1 - adjustment) + (p + 0.5) / x.scale - 0.5;
  }
  if (m.coordinates == "tf_crop_and_resize") {
    if (x.out == 1) return 0.5 * (x.roi_start + x.roi_end) * (in - 1);
    return x.roi_start * (in - 1) + p * (x.roi_end - x.roi_start) * (in - 1) / (out - 1);
  }
  return (p + 0.5) / x.scale - 0.5;
}

std::int64_t nearest_of(const Mode& m, double x) {
  const double low = std::floor(x), ratio = x - low;
  if (m.nearest == "floor") return static_cast<std::int64_t>(low);
  if (m.nearest == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  if (m.nearest == "round_prefer_ceil")
    return static_cast<std::int64_t>(ratio < 0.5 ? low : low + 1);
  return static_cast<std::int64_t>(ratio <= 0.5 ? low : low + 1);
}

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// Weights of the elements around a position `ratio` after the lower one.
std::vector<double> weights_of(const Mode& m, double ratio, double scale) {
  const bool is_cubic = m.kind == "cubic";
  const double s = m.antialias ? std::min(scale, 1.0) : 1;
  const double reach = is_cubic ? 2 : 1;
  const auto start = static_cast<std::int64_t>(std::floor(-reach / s)) + 1;
  const std::int64_t count = 2 - 2 * start;
  std::vector<double> weights;
  double total = 0;
  for (std::int64_t k = start; k < start + count; ++k) {
    const double x = s * (static_cast<double>(k) - ratio);
    weights.push_back(is_cubic ? cubic(x, m.a) : std::max(0.0, 1 - std::abs(x)));
    total += weights.back();
  }
  if (m.antialias)
    for (double& w : weights) w /= total;
  return weights;
}

struct Taps {
  std::vector<std::int64_t> places;  // [out, count]
  std::vector<float> weights;
  std::size_t count = 0;
};

Taps taps_of(const Axis& axis, const Mode& m) {
  Taps taps;
  for (std::int64_t p = 0; p < axis.out; ++p) {
    const double x = source_of(axis, m, p);
    const double low = std::floor(x), ratio = x == low ? 1 : x - low;
    std::vector<double> weights = weights_of(m, ratio, axis.scale);
    const auto n = static_cast<std::int64_t>(weights.size());
    const std::int64_t first = static_cast<std::int64_t>(std::ceil(x)) - n / 2;
    taps.count = weights.size();
    if (m.exclude_outside) {
      double total = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        if (first + k < 0 || first + k >= axis.in) weights[static_cast<std::size_t>(k)] = 0;
        total += weights[static_cast<std::size_t>(k)];
      }
      for (double& w : weights) w /= total;
    }
    for (std::int64_t k = 0; k < n; ++k) {
      taps.places.push_back(std::clamp<std::int64_t>(first + k, 0, axis.in - 1));
      taps.weights.push_back(static_cast<float>(weights[static_cast<std::size_t>(k)]));
    }
  }
  return taps;
}

Expr resampled(Expr x, std::int64_t d, const Axis& axis, const Mode& m) {
  Graph& g = x.g;
  if (m.kind == "nearest") {
    std::vector<std::int64_t> places;
    for (std::int64_t p = 0; p < axis.out; ++p)
      places.push_back(
          std::clamp<std::int64_t>(nearest_of(m, source_of(axis, m, p)), 0, axis.in - 1));
    return take(x, {g, ops::constant(g, HostTensor::of_i64({axis.out}, places))}, d);
  }
  const Taps taps = taps_of(axis, m);
  Shape along(x.shape().size(), Dim(1));
  along[static_cast<std::size_t>(d)] = axis.out;
  std::optional<Expr> total;
  for (std::size_t k = 0; k < taps.count; ++k) {
    std::vector<std::int64_t> places;
    std::vector<float> weights;
    for (std::int64_t p = 0; p < axis.out; ++p) {
      places.push_back(taps.places[static_cast<std::size_t>(p) * taps.count + k]);
      weights.push_back(taps.weights[static_cast<std::size_t>(p) * taps.count + k]);
    }
    if (std::ranges::all_of(weights, [](float w) { return w == 0; })) continue;
    Expr at(g, ops::constant(g, HostTensor::of_i64({axis.out}, places)));
    Expr weight = reshape(Expr(g, ops::constant(g, HostTensor::of({axis.out}, weights))), along);
    Expr part = take(x, at, d) * weight.to(x.dtype());
    total = total ? *total + part : part;
  }
  return *total;
}

std::int64_t known_size(const Row& r, Dim d) {
  const auto size = d.as_const();
  if (!size) r.refuse("the sizes of the tensor are not known at import");
  return *size;
}

Items resized(Row& r, const Mode& m, const std::vector<Axis>& all, const Ints& axes,
              double outside) {
  Graph& g = r.g;
  Expr x = m.kind == "nearest" ? expr(r, 0) : wide(r, 0);
  const bool integers = !gex::is_float(x.dtype());
  if (integers && m.kind != "nearest") x = x.to(DType::f32);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const Axis& axis = all[k];
    const bool same =
        axis.in == axis.out && axis.scale == 1 && m.coordinates != "tf_crop_and_resize";
    if (!same) x = resampled(x, axes[k], axis, m);
  }
  if (m.coordinates == "tf_crop_and_resize") {
    for (std::size_t k = 0; k < axes.size(); ++k) {
      HostTensor inside(DType::boolean, {all[k].out});
      for (std::int64_t p = 0; p < all[k].out; ++p) {
        const double at = source_of(all[k], m, p);
        inside.set_int(p, at >= 0 && at <= static_cast<double>(all[k].in - 1));
      }
      Shape along(x.shape().size(), Dim(1));
      along[static_cast<std::size_t>(axes[k])] = all[k].out;
      x = where(reshape(Expr(g, ops::constant(g, std::move(inside))), along), x, x.number(outside));
    }
  }
  if (integers && m.kind != "nearest") x = round(x);
  return r.one(x.to(r.dtype()));
}

// Nearest neighbours with an integer factor repeat each element, for any size.
bool repeats_elements(const Mode& m, double scale) {
  if (m.kind != "nearest" || scale < 1 || scale != std::floor(scale)) return false;
  if (m.coordinates == "asymmetric")
    return m.nearest == "floor" || (m.nearest == "round_prefer_floor" && scale <= 2);
  return m.coordinates == "half_pixel" && m.nearest.starts_with("round");
}

// For unknown sizes; nothing if the node is not of that form.
std::optional<Items> repeated(Row& r, const Mode& m, const Ints& axes, const HostTensor& scales) {
  Expr x = expr(r, 0);
  for (std::size_t k = 0; k < axes.size(); ++k)
    if (!repeats_elements(m, scales.get(static_cast<std::int64_t>(k)))) return std::nullopt;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto factor = static_cast<std::int64_t>(scales.get(static_cast<std::int64_t>(k)));
    if (factor == 1) continue;
    Shape apart = x.shape(), joined = x.shape();
    apart.insert(apart.begin() + axes[k] + 1, Dim(factor));
    joined[static_cast<std::size_t>(axes[k])] =
        joined[static_cast<std::size_t>(axes[k])] * Dim(factor);
    x = reshape(expand(unsqueeze(x, axes[k] + 1), apart), joined);
  }
  return r.one(x);
}

// keep_aspect_ratio_policy: one scale for all axes, so that the result is not larger or not smaller
// than the requested sizes.
void keep_aspect_ratio(std::vector<Axis>& all, const std::string& policy) {
  double scale = all[0].scale;
  for (const Axis& axis : all)
    scale = policy == "not_larger" ? std::min(scale, axis.scale) : std::max(scale, axis.scale);
  for (Axis& axis : all) {
    axis.scale = scale;
    axis.length = scale * static_cast<double>(axis.in);
    axis.out = static_cast<std::int64_t>(std::floor(axis.length + 0.5));
  }
}

Items resize(Row& r) {
  Mode m{
      r.string_attr("mode", "nearest"),
      r.string_attr("coordinate_transformation_mode", r.opset < 11 ? "asymmetric" : "half_pixel"),
      r.string_attr("nearest_mode", r.opset < 11 ? "floor" : "round_prefer_floor"),
      r.float_attr("cubic_coeff_a", -0.75),
      r.int_attr("antialias", 0) != 0,
      r.int_attr("exclude_outside", 0) != 0};
  if (r.opset < 11 && m.kind == "nearest") m.nearest = "floor";
  Ints axes = r.ints_attr("axes");
  if (!r.has_attr("axes"))
    for (int d = 0; d < r.rank(); ++d) axes.push_back(d);
  for (std::int64_t& a : axes) a = normal_axis(a, r.rank());
  const std::size_t scales_at = r.opset < 11 ? 1 : 2, sizes_at = 3;
  const auto has_numbers = [&](std::size_t i) {
    return r.has(i) && r.rank(i) == 1 && !(r.shape(i)[0] == Dim(0));
  };
  std::vector<Axis> all(axes.size());
  if (r.opset >= 11 && has_numbers(1) && m.coordinates == "tf_crop_and_resize") {
    const HostTensor& roi = r.number(1, "the region of interest");
    const auto n = static_cast<std::int64_t>(axes.size());
    if (roi.numel() != 2 * n) r.refuse("the region must have two numbers for each axis");
    for (std::int64_t k = 0; k < n; ++k) {
      all[static_cast<std::size_t>(k)].roi_start = roi.get(k);
      all[static_cast<std::size_t>(k)].roi_end = roi.get(k + n);
    }
  }
  const bool by_scale = has_numbers(scales_at);
  if (by_scale && r.number(scales_at, "scales").numel() != static_cast<std::int64_t>(axes.size()))
    r.refuse("expected one scale for each axis");
  if (by_scale)
    if (auto items = repeated(r, m, axes, r.number(scales_at, "scales"))) return *items;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    Axis& axis = all[k];
    axis.in = known_size(r, r.shape()[static_cast<std::size_t>(axes[k])]);
    if (by_scale) {
      axis.scale = r.number(scales_at, "scales").get(static_cast<std::int64_t>(k));
      const double extent =
          m.coordinates == "tf_crop_and_resize" ? axis.roi_end - axis.roi_start : 1;
      axis.length = static_cast<double>(axis.in) * extent * axis.scale;
      axis.out = static_cast<std::int64_t>(std::floor(axis.length));
    } else {
      const Dims sizes = r.dims(sizes_at, "sizes of the result");
      axis.out = known_size(r, sizes.at(k));
      axis.length = static_cast<double>(axis.out);
      axis.scale = axis.length / static_cast<double>(axis.in);
    }
  }
  const std::string policy = r.string_attr("keep_aspect_ratio_policy", "stretch");
  if (!by_scale && policy != "stretch") keep_aspect_ratio(all, policy);
  return resized(r, m, all, axes, r.float_attr("extrapolation_value", 0));
}

Items upsample(Row& r) {
  Mode m{r.string_attr("mode", "nearest"), "asymmetric", "floor", -0.75, false, false};
  if (m.kind == "bilinear") m.kind = "linear";
  std::vector<Axis> all(static_cast<std::size_t>(r.rank()));
  Ints axes;
  if (r.opset >= 9 && r.number(1, "scales").numel() != r.rank())
    r.refuse("expected one scale for each axis");
  for (std::size_t d = 0; d < all.size(); ++d) {
    all[d].in = known_size(r, r.shape()[d]);
    all[d].scale = r.opset < 9 ? r.floats_attr("scales").at(d)
                               : r.number(1, "scales").get(static_cast<std::int64_t>(d));
    all[d].length = all[d].scale * static_cast<double>(all[d].in);
    all[d].out = static_cast<std::int64_t>(std::floor(all[d].length));
    axes.push_back(static_cast<std::int64_t>(d));
  }
  return resized(r, m, all, axes, 0);
}

}  // namespace

void add_resize_rows() {
  add_row("Resize", resize);
  add_row("Upsample", upsample);
}

}  // namespace gex::onnx
