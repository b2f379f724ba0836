// Sampling at computed coordinates: GridSample, AffineGrid, DeformConv, RoiAlign.

#include <algorithm>
#include <cmath>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/views.hpp"

namespace gex::onnx {
namespace {

// Elements of x [batch, channels, spatial...] at integer coordinates [batch, points], one list per
// spatial axis: [batch, channels, points]. Outside elements are zero.
Expr elements_at(Expr x, const std::vector<Expr>& coordinates) {
  Graph& g = x.g;
  const Shape s = x.shape();
  Expr place = coordinates[0].number(0).to(DType::i64);
  std::optional<Expr> inside;
  Dim spatial(1);
  for (std::size_t d = 0; d < coordinates.size(); ++d) {
    Expr size(g, ops::dim_value(g, s[d + 2]));
    Expr at = coordinates[d].to(DType::i64);
    Expr ok = (at >= 0) & (at < size);
    inside = inside ? *inside & ok : ok;
    place = place * size + max(min(at, size - 1), 0);
    spatial *= s[d + 2];
  }
  const Dim points = place.shape()[1];
  Expr flat = reshape(x, {s[0], s[1], spatial});
  Expr where_ = expand(unsqueeze(place, 1), {s[0], s[1], points});
  Expr found(g, ops::take_along(g, flat, where_, 2));
  return where(unsqueeze(*inside, 1), found, found.number(0));
}

// Weights of the elements around x along an axis: (coordinate, weight).
std::vector<std::pair<Expr, Expr>> neighbours(Expr x, const std::string& mode) {
  if (mode == "nearest") return {{round(x), x.number(1)}};
  Expr low = floor(x), t = x - low;
  if (mode != "cubic") return {{low, 1.0 - t}, {low + 1, t}};
  const double a = -0.75;
  const auto near = [&](Expr d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [&](Expr d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {{low - 1, far(t + 1)}, {low, near(t)}, {low + 1, near(1.0 - t)}, {low + 2, far(2.0 - t)}};
}

// Coordinates outside are mirrored at the edges until they are inside.
Expr reflected(Expr x, Expr low, Expr high) {
  Expr range = max(high - low, 1e-9);
  Expr d = abs(x - low);
  Expr turns = floor(d / range), rest = d - turns * range;
  Expr odd = binary("mod", turns, turns.number(2)) == 1;
  return where(odd, high - rest, low + rest);
}

struct Sampler {
  std::string mode, padding;
  bool align = false;
};

Expr limited(Expr c, Dim size, const Sampler& s) {
  Expr n = Expr(c.g, ops::dim_value(c.g, size)).to(c.dtype());
  if (s.padding == "border") return max(min(c, n - 1), 0);
  if (s.padding != "reflection") return c;
  Expr low = c.number(s.align ? 0 : -0.5), high = s.align ? n - 1 : n - 0.5;
  return max(min(reflected(c, low, high), n - 1), 0);
}

// Sum over all neighbours, one axis after another.
Expr sampled(Expr x, const std::vector<Expr>& coordinates, const Sampler& s) {
  std::vector<std::vector<std::pair<Expr, Expr>>> around;
  for (const Expr& c : coordinates) around.push_back(neighbours(c, s.mode));
  std::optional<Expr> total;
  std::vector<std::size_t> pick(around.size(), 0);
  for (bool more = true; more;) {
    std::vector<Expr> at;
    std::optional<Expr> weight;
    for (std::size_t d = 0; d < around.size(); ++d) {
      const auto& [place, w] = around[d][pick[d]];
      at.push_back(s.mode == "cubic" ? limited(place, x.shape()[d + 2], s) : place);
      weight = weight ? *weight * w : w;
    }
    Expr part = elements_at(x, at);
    Expr w = weight->to(part.dtype());
    part = part * (w.rank() == 0 ? w : unsqueeze(w, 1));
    total = total ? *total + part : part;
    more = false;
    for (std::size_t d = 0; d < pick.size() && !more; ++d) {
      more = ++pick[d] < around[d].size();
      if (!more) pick[d] = 0;
    }
  }
  return *total;
}

Items grid_sample(Row& r) {
  Graph& g = r.g;
  Sampler s{r.string_attr("mode", "linear"), r.string_attr("padding_mode", "zeros"),
            r.int_attr("align_corners", 0) != 0};
  if (s.mode == "bilinear") s.mode = "linear";
  if (s.mode == "bicubic") s.mode = "cubic";
  Expr x = wide(r, 0), grid = wide(r, 1).to(wide(r, 0).dtype());
  const Shape shape = r.shape(), points = r.shape(1);
  const std::size_t axes = shape.size() - 2;
  const Shape out(points.begin() + 1, points.end() - 1);
  Expr flat = reshape(grid, {points[0], product(out), Dim(static_cast<std::int64_t>(axes))});
  std::vector<Expr> coordinates;
  for (std::size_t d = 0; d < axes; ++d) {
    Expr c = select(flat, 2, static_cast<std::int64_t>(axes - 1 - d));  // x comes first
    Expr n = Expr(g, ops::dim_value(g, shape[d + 2])).to(c.dtype());
    c = s.align ? (c + 1) / 2 * (n - 1) : ((c + 1) * n - 1) / 2;
    if (s.mode == "nearest") c = round(c);
    coordinates.push_back(s.mode == "cubic" ? c : limited(c, shape[d + 2], s));
  }
  Expr y = sampled(x, coordinates, s);
  Shape result{shape[0], shape[1]};
  result.insert(result.end(), out.begin(), out.end());
  return r.one(reshape(y, result).to(r.dtype()));
}

// Coordinates of an axis from -1 to 1: of the outer elements' centres or edges.
Expr spaced(Graph& g, Dim size, bool align, DType t) {
  Expr n = Expr(g, ops::dim_value(g, size)).to(t);
  Expr i = iota(g, size).to(t);
  if (align) return i * 2 / max(n - 1, 1) - 1;
  return (i * 2 + 1) / n - 1;
}

Items affine_grid(Row& r) {
  Graph& g = r.g;
  const Dims size = r.dims(1, "sizes of the image");
  const bool align = r.int_attr("align_corners", 0) != 0;
  const DType t = compute_type(r.dtype());
  const std::size_t axes = size.size() - 2;
  const Dims out(size.begin() + 2, size.end());
  std::vector<Value*> columns;
  for (std::size_t k = 0; k < axes; ++k) {
    const std::size_t d = axes - 1 - k;
    Shape along(axes, Dim(1));
    along[d] = out[d];
    Expr c = expand(reshape(spaced(g, out[d], align, t), along), out);
    columns.push_back(unsqueeze(c, static_cast<std::int64_t>(axes)));
  }
  Shape last = out;
  last.emplace_back(1);
  columns.push_back(ops::full(g, t, 1, last));
  Expr base(g, ops::cat(g, columns, static_cast<std::int64_t>(axes)));
  const Dim width(static_cast<std::int64_t>(axes) + 1);
  Expr flat = reshape(base, {Dim(1), product(out), width});
  Expr grid = matmul(flat, transpose(wide(r, 0), {0, 2, 1}));
  Shape shape{size[0]};
  shape.insert(shape.end(), out.begin(), out.end());
  shape.emplace_back(static_cast<std::int64_t>(axes));
  return r.one(reshape(grid, shape).to(r.dtype()));
}

// x, weights, offsets, bias, mask: each tap of each window reads x at its own position.
Items deform_conv(Row& r) {
  Graph& g = r.g;
  const Shape s = r.shape(), w = r.shape(1), o = r.shape(2);
  const std::size_t axes = s.size() - 2;
  if (axes != 2) r.refuse("only images with two spatial axes are supported");
  const Ints stride = r.ints_attr("strides", Ints(axes, 1));
  const Ints dilation = r.ints_attr("dilations", Ints(axes, 1));
  const Ints pads = r.ints_attr("pads", Ints(2 * axes, 0));
  const std::int64_t groups = r.int_attr("group", 1), fields = r.int_attr("offset_group", 1);
  if (stride.size() != 2 || dilation.size() != 2 || pads.size() != 4 || groups < 1 || fields < 1 ||
      !w[2].is_const() || !w[3].is_const())
    r.refuse("strides, dilations, pads and groups do not match");
  const std::int64_t kh = w[2].constant(), kw = w[3].constant();
  const Dim oh = o[2], ow = o[3], points = oh * ow, each = floordiv(s[1], fields);
  Expr x = wide(r, 0);
  const DType t = x.dtype();
  Expr offset = reshape(wide(r, 2), {s[0], Dim(fields), Dim(kh * kw), Dim(2), oh, ow});
  // Offset groups are treated as separate batch entries.
  Expr images = reshape(x, {s[0] * Dim(fields), each, s[2], s[3]});
  std::vector<Value*> columns;
  for (std::int64_t tap = 0; tap < kh * kw; ++tap) {
    std::vector<Expr> at;
    for (std::size_t d = 0; d < 2; ++d) {
      const Dim size = d == 0 ? oh : ow;
      Shape along{Dim(1), Dim(1), Dim(1), Dim(1)};
      along[2 + d] = size;
      const std::int64_t k = d == 0 ? tap / kw : tap % kw;
      Expr base = iota(g, size).to(t) * static_cast<double>(stride[d]) +
                  static_cast<double>(k * dilation[d] - pads[d]);
      Expr moved =
          reshape(base, along) + select(select(offset, 2, tap), 2, static_cast<std::int64_t>(d));
      at.push_back(reshape(moved, {s[0] * Dim(fields), points}));
    }
    Expr value = sampled(images, at, {"linear", "zeros", true});
    if (r.has(4)) {
      Expr mask = reshape(wide(r, 4), {s[0] * Dim(fields), Dim(kh * kw), points});
      value = value * unsqueeze(select(mask, 1, tap), 1);
    }
    columns.push_back(ops::unsqueeze(g, ops::reshape(g, value, {s[0], s[1], points}), 2));
  }
  Expr all(g, columns.size() == 1 ? columns[0] : ops::cat(g, columns, 2));
  const Dim depth = floordiv(s[1], groups) * Dim(kh * kw);
  Expr left = reshape(wide(r, 1), {Dim(1), Dim(groups), floordiv(w[0], groups), depth});
  Expr y = matmul(left, reshape(all, {s[0], Dim(groups), depth, points}));
  y = reshape(y, {s[0], w[0], oh, ow});
  if (r.has(3)) y = y + reshape(wide(r, 3), {w[0], Dim(1), Dim(1)});
  return r.one(y.to(r.dtype()));
}

// --- RoiAlign: the number of samples per bin may depend on the region ----------------------------

struct RoiSpec {
  std::int64_t height = 1, width = 1, ratio = 0;
  double scale = 1;
  bool maximum = false, half_pixel = true;
};

double bilinear_product(const HostTensor& x, std::int64_t image, double y, double at,
                        std::int64_t h, std::int64_t w, bool maximum) {
  if (y < -1 || y > static_cast<double>(h) || at < -1 || at > static_cast<double>(w)) return 0;
  y = std::max(y, 0.0);
  at = std::max(at, 0.0);
  auto y0 = static_cast<std::int64_t>(y), x0 = static_cast<std::int64_t>(at);
  if (y0 >= h - 1) y = static_cast<double>(y0 = h - 1);
  if (x0 >= w - 1) at = static_cast<double>(x0 = w - 1);
  const std::int64_t y1 = std::min(y0 + 1, h - 1), x1 = std::min(x0 + 1, w - 1);
  const double ly = y - static_cast<double>(y0), lx = at - static_cast<double>(x0);
  const auto v = [&](std::int64_t a, std::int64_t b) { return x.get((image * h + a) * w + b); };
  const double a = (1 - ly) * (1 - lx) * v(y0, x0), b = (1 - ly) * lx * v(y0, x1);
  const double c = ly * (1 - lx) * v(y1, x0), d = ly * lx * v(y1, x1);
  return maximum ? std::max({a, b, c, d}) : a + b + c + d;
}

HostTensor roi_aligned(std::span<const HostTensor> in, const RoiSpec& spec) {
  const HostTensor &x = in[0], &rois = in[1], &batch = in[2];
  const auto& s = x.shape();
  const std::int64_t count = rois.shape()[0], channels = s[1], h = s[2], w = s[3];
  HostTensor out(x.dtype(), {count, channels, spec.height, spec.width});
  const double shift = spec.half_pixel ? 0.5 : 0;
  for (std::int64_t n = 0; n < count; ++n) {
    const double x1 = rois.get(n * 4) * spec.scale - shift,
                 y1 = rois.get(n * 4 + 1) * spec.scale - shift;
    double rw = rois.get(n * 4 + 2) * spec.scale - shift - x1;
    double rh = rois.get(n * 4 + 3) * spec.scale - shift - y1;
    if (!spec.half_pixel) {
      rw = std::max(rw, 1.0);
      rh = std::max(rh, 1.0);
    }
    const double bh = rh / static_cast<double>(spec.height),
                 bw = rw / static_cast<double>(spec.width);
    const auto samples = [&](double size) {
      return spec.ratio > 0 ? spec.ratio : static_cast<std::int64_t>(std::ceil(size));
    };
    const std::int64_t gh = samples(bh), gw = samples(bw);
    const std::int64_t image = batch.get_int(n);
    if (image < 0 || image >= s[0])
      fail(ErrorCode::invalid_argument, "RoiAlign: batch index ", image, " of ", s[0]);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < spec.height * spec.width; ++p) {
        double total = 0;
        bool first = true;
        for (std::int64_t iy = 0; iy < gh; ++iy)
          for (std::int64_t ix = 0; ix < gw; ++ix) {
            const double y = y1 + static_cast<double>(p / spec.width) * bh +
                             (static_cast<double>(iy) + 0.5) * bh / static_cast<double>(gh);
            const double at = x1 + static_cast<double>(p % spec.width) * bw +
                              (static_cast<double>(ix) + 0.5) * bw / static_cast<double>(gw);
            const double v = bilinear_product(x, image * channels + c, y, at, h, w, spec.maximum);
            total = spec.maximum ? (first ? v : std::max(total, v)) : total + v;
            first = false;
          }
        if (!spec.maximum) total /= static_cast<double>(std::max<std::int64_t>(gh * gw, 1));
        out.set((n * channels + c) * spec.height * spec.width + p, total);
      }
  }
  return out;
}

Items roi_align(Row& r) {
  RoiSpec spec;
  spec.height = r.int_attr("output_height", 1);
  spec.width = r.int_attr("output_width", 1);
  spec.ratio = r.int_attr("sampling_ratio", 0);
  spec.scale = r.float_attr("spatial_scale", 1);
  spec.maximum = r.string_attr("mode", "avg") == "max";
  const std::string mode = r.string_attr("coordinate_transformation_mode",
                                         r.opset < 16 ? "output_half_pixel" : "half_pixel");
  spec.half_pixel = mode == "half_pixel";
  const std::string key = str(spec.height, " ", spec.width, " ", spec.ratio, " ", spec.scale, " ",
                              spec.maximum, spec.half_pixel);
  return r.one(r.host_call(
      key, {r.in(0), r.in(1), r.in(2)},
      {Type::tensor(r.dtype(), {r.shape(1)[0], r.shape()[1], Dim(spec.height), Dim(spec.width)})},
      [spec](std::span<const HostTensor> in, std::span<const std::int64_t>) {
        return std::vector{roi_aligned(in, spec)};
      })[0]);
}

// The largest element of each bin of a region; bins contain whole elements.
HostTensor roi_pooled(std::span<const HostTensor> in, std::int64_t height, std::int64_t width,
                      double scale) {
  const HostTensor &x = in[0], &rois = in[1];
  const auto& s = x.shape();
  HostTensor out(x.dtype(), {rois.shape()[0], s[1], height, width});
  for (std::int64_t n = 0; n < rois.shape()[0]; ++n) {
    const auto at = [&](std::int64_t k) {
      return static_cast<std::int64_t>(std::round(rois.get(n * 5 + k) * scale));
    };
    const auto image = static_cast<std::int64_t>(rois.get(n * 5));
    if (image < 0 || image >= s[0])
      fail(ErrorCode::invalid_argument, "MaxRoiPool: batch index ", image, " of ", s[0]);
    const std::int64_t x1 = at(1), y1 = at(2);
    const auto bin = [](std::int64_t from, std::int64_t to, std::int64_t bins) {
      return static_cast<double>(std::max<std::int64_t>(to - from + 1, 1)) /
             static_cast<double>(bins);
    };
    const double bh = bin(y1, at(4), height), bw = bin(x1, at(3), width);
    const auto edge = [](double v, std::int64_t first, std::int64_t limit) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(v) + first, 0, limit);
    };
    for (std::int64_t c = 0; c < s[1]; ++c)
      for (std::int64_t p = 0; p < height * width; ++p) {
        const auto py = static_cast<double>(p / width), px = static_cast<double>(p % width);
        const std::int64_t top = edge(std::floor(py * bh), y1, s[2]),
                           bottom = edge(std::ceil((py + 1) * bh), y1, s[2]);
        const std::int64_t left = edge(std::floor(px * bw), x1, s[3]),
                           right = edge(std::ceil((px + 1) * bw), x1, s[3]);
        double best = 0;
        bool any = false;
        for (std::int64_t y = top; y < bottom; ++y)
          for (std::int64_t q = left; q < right; ++q) {
            const double v = x.get(((image * s[1] + c) * s[2] + y) * s[3] + q);
            best = any ? std::max(best, v) : v;
            any = true;
          }
        out.set((n * s[1] + c) * height * width + p, best);
      }
  }
  return out;
}

Items max_roi_pool(Row& r) {
  const Ints size = r.ints_attr("pooled_shape");
  if (size.size() != 2) r.refuse("pooled_shape must have two numbers");
  const double scale = r.float_attr("spatial_scale", 1);
  const Type type =
      Type::tensor(r.dtype(), {r.shape(1)[0], r.shape()[1], Dim(size[0]), Dim(size[1])});
  return r.one(
      r.host_call(str(size[0], " ", size[1], " ", scale), {r.in(0), r.in(1)}, {type},
                  [size, scale](std::span<const HostTensor> in, std::span<const std::int64_t>) {
                    return std::vector{roi_pooled(in, size[0], size[1], scale)};
                  })[0]);
}

}  // namespace

void add_image_rows() {
  add_row("GridSample", grid_sample);
  add_row("AffineGrid", affine_grid);
  add_row("DeformConv", deform_conv);
  add_row("RoiAlign", roi_align);
  add_row("MaxRoiPool", max_roi_pool);
}

}  // namespace gex::onnx
