// Resampling of the last axes. One op for all modes: each axis reads one, two or four neighbours of
// the sampled position.

#include <algorithm>
#include <functional>

#include "ops/antialias.hpp"
#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/core/separable.hpp"
#include "ops/resampled_gradient.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

struct Interpolate {
  std::string mode = "nearest";  // nearest, nearest_exact, linear, cubic
  Dims size;                     // of the last axes
  bool align_corners = false;    // align the corners' centres, not their edges
  std::vector<double> scales;    // requested by the caller; 0 or absent: from the sizes
  static constexpr auto fields() {
    return std::tuple{field("mode", &Interpolate::mode), field("size", &Interpolate::size),
                      field("align_corners", &Interpolate::align_corners),
                      field("scales", &Interpolate::scales)};
  }
};

// A neighbour on one axis, and its weight.
struct Neighbour {
  Dim at;
  Scalar weight;
};

class AxisReader {
 public:
  // Positions are computed in `dtype`, as in PyTorch: f32, or f64 for f64.
  AxisReader(ScalarBuilder& s, const Interpolate& form, std::size_t k, Dim in, Dim out, DType dtype)
      : s_(s), form_(form), in_(in), out_(out), t_(dtype) {
    const double wanted = k < form.scales.size() ? form.scales[k] : 0;
    if (form.align_corners) {
      scale_ = out == Dim(1) ? number(0) : s.div(size(in - 1), size(max(out - 1, 1)));
    } else {
      scale_ = wanted > 0 ? number(1 / wanted) : s.div(size(in), size(out));
    }
  }

  std::vector<Neighbour> at(Dim o) {
    if (form_.mode == "nearest" || form_.mode == "nearest_exact") return nearest(o);
    if (in_ == out_) return {{o, number(1)}};
    return form_.mode == "linear" ? linear(o) : cubic(o);
  }

 private:
  Scalar number(double value) { return s_.constant(t_, value); }
  Scalar size(Dim d) { return s_.cast(s_.index(d), t_); }
  Scalar whole(Dim d) { return s_.index(d); }

  std::vector<Neighbour> nearest(Dim o) {
    if (in_ == out_) return {{o, number(1)}};
    Scalar x = size(o);
    if (form_.mode == "nearest_exact") x = s_.add(x, number(0.5));
    return {{clamped(s_.unary(Prim::floor, s_.mul(x, scale_))), number(1)}};
  }

  // The position in the input's coordinates.
  Scalar place(Dim o) {
    if (form_.align_corners) return s_.mul(scale_, size(o));
    return s_.sub(s_.mul(scale_, s_.add(size(o), number(0.5))), number(0.5));
  }

  Dim clamped(Scalar x) {
    Scalar i = s_.cast(x, DType::i64);
    i = s_.binary(Prim::max, i, s_.constant_int(DType::i64, 0));
    i = s_.binary(Prim::min, i, whole(in_ - 1));
    return s_.as_dim(i, {0, in_.is_const() ? in_.constant() - 1 : DimRange::kInf});
  }

  std::vector<Neighbour> linear(Dim o) {
    const Scalar x = s_.binary(Prim::max, place(o), number(0));
    const Scalar last = size(in_ - 1);
    const Scalar before = s_.binary(Prim::min, s_.unary(Prim::floor, x), last);
    Scalar share = s_.sub(x, before);
    share = s_.binary(Prim::min, s_.binary(Prim::max, share, number(0)), number(1));
    return {{clamped(before), s_.sub(number(1), share)},
            {clamped(s_.add(before, number(1))), share}};
  }

  // Keys' kernel with a slope of -0.75.
  std::vector<Neighbour> cubic(Dim o) {
    const Scalar x = place(o), before = s_.unary(Prim::floor, x);
    Scalar share = s_.sub(x, before);
    share = s_.binary(Prim::min, s_.binary(Prim::max, share, number(0)), number(1));
    const Scalar rest = s_.sub(number(1), share);
    const Scalar weights[4] = {far(s_.add(share, number(1))), near(share), near(rest),
                               far(s_.add(rest, number(1)))};
    std::vector<Neighbour> all;
    for (int k = 0; k < 4; ++k) {
      all.push_back({clamped(s_.add(before, number(k - 1))), weights[k]});
    }
    return all;
  }

  static constexpr double kSlope = -0.75;
  // ((A+2)x - (A+3))x^2 + 1 and ((Ax - 5A)x + 8A)x - 4A.
  Scalar near(Scalar x) {
    const Scalar inner = s_.sub(s_.mul(number(kSlope + 2), x), number(kSlope + 3));
    return s_.add(s_.mul(s_.mul(inner, x), x), number(1));
  }
  Scalar far(Scalar x) {
    Scalar y = s_.sub(s_.mul(number(kSlope), x), number(5 * kSlope));
    y = s_.add(s_.mul(y, x), number(8 * kSlope));
    return s_.sub(s_.mul(y, x), number(4 * kSlope));
  }

  ScalarBuilder& s_;
  const Interpolate& form_;
  Dim in_, out_;
  DType t_;
  Scalar scale_;
};

bool is_nearest(const Interpolate& form) {
  return form.mode == "nearest" || form.mode == "nearest_exact";
}

// The weighted sum over the neighbours of axes k, k+1, ...
Scalar weighted(BodyContext& c, const std::vector<std::vector<Neighbour>>& axes, std::size_t k,
                std::vector<Dim>& at, DType wide) {
  if (k == axes.size()) return c.s.cast(c.in(0, at), wide);
  const std::size_t axis = at.size() - axes.size() + k;
  Scalar sum{};
  for (std::size_t i = 0; i < axes[k].size(); ++i) {
    at[axis] = axes[k][i].at;
    Scalar part = weighted(c, axes, k + 1, at, wide);
    if (axes[k].size() > 1) part = c.s.mul(part, axes[k][i].weight);
    sum = i == 0 ? part : c.s.add(sum, part);
  }
  return sum;
}

Scalar interpolate_body(BodyContext& c, int, Indices p) {
  const auto form = c.node.as<Interpolate>();
  const Shape& in = c.in_type(0).shape;
  const DType dtype = c.out_type().dtype;
  // Integers are only selected, never weighted.
  const DType wide = is_float(dtype) ? compute_type(dtype) : DType::f32;
  const DType places = is_nearest(form) ? DType::f32 : wide;
  std::vector<std::vector<Neighbour>> axes;
  for (std::size_t k = 0; k < form.size.size(); ++k) {
    const std::size_t axis = in.size() - form.size.size() + k;
    axes.push_back(AxisReader(c.s, form, k, in[axis], form.size[k], places).at(p[axis]));
  }
  std::vector<Dim> at(p.begin(), p.end());
  if (is_nearest(form)) {
    for (std::size_t k = 0; k < axes.size(); ++k) {
      at[at.size() - axes.size() + k] = axes[k][0].at;
    }
    return c.in(0, at);
  }
  return c.s.cast(weighted(c, axes, 0, at, wide), dtype);
}

Type interpolate_type(const InferContext& c) {
  const auto a = c.as<Interpolate>();
  const bool known = is_nearest(a) || a.mode == "linear" || a.mode == "cubic";
  if (!known) {
    fail(ErrorCode::invalid_argument, "interpolate: mode '", a.mode,
         "' is unknown; use nearest, nearest_exact, linear or cubic");
  }
  if (!is_nearest(a)) require_dtype(c, 0, floating);
  Shape shape = c.in(0).shape;
  if (a.size.empty() || a.size.size() > shape.size()) {
    fail(ErrorCode::shape_mismatch, "interpolate: ", a.size.size(), " sizes for ", c.in(0),
         "; give one for each of the last axes to be resampled");
  }
  for (std::size_t k = 0; k < a.size.size(); ++k) {
    Dim& axis = shape[shape.size() - a.size.size() + k];
    if (!assume_le(1, axis) || !assume_le(1, a.size[k])) {
      fail(ErrorCode::shape_mismatch, "interpolate: ", c.in(0), " to ", text_of(a.size),
           ": resampled axes must not be empty");
    }
    axis = a.size[k];
  }
  return Type::tensor(c.in(0).dtype, shape);
}

// --- rows -------------------------------------------------------------------------------------

// The arguments of an overload, derived from its name:
// aten.upsample_<kind><axes>d[_backward].<form>.
struct Overload {
  const char* kind;
  std::size_t axes;
  const char* mode;
  bool aligns;  // has an argument align_corners
};

constexpr Overload kOverloads[] = {
    {"upsample_nearest", 1, "nearest", false},
    {"upsample_nearest", 2, "nearest", false},
    {"upsample_nearest", 3, "nearest", false},
    {"_upsample_nearest_exact", 1, "nearest_exact", false},
    {"_upsample_nearest_exact", 2, "nearest_exact", false},
    {"_upsample_nearest_exact", 3, "nearest_exact", false},
    {"upsample_linear", 1, "linear", true},
    {"upsample_bilinear", 2, "linear", true},
    {"upsample_trilinear", 3, "linear", true},
    {"upsample_bicubic", 2, "cubic", true},
};

Dims last_sizes(const Shape& shape, std::size_t axes) {
  return {shape.end() - static_cast<std::ptrdiff_t>(axes), shape.end()};
}

// Scales from argument `at` on, one for each axis.
std::vector<double> scale_arguments(const AtenCall& c, std::size_t at, std::size_t axes) {
  std::vector<double> scales;
  for (std::size_t k = 0; k < axes; ++k) scales.push_back(c.none(at + k) ? 0 : c.number(at + k));
  return scales;
}

AtenImport by_sizes(Overload o) {  // x, output_size, [align_corners], scales...
  return [o](AtenCall& c) {
    // Eager rounds the weights of integers.
    if (o.aligns && !is_float(c.result().dtype)) return std::vector<Value*>{};
    const std::size_t rest = o.aligns ? 3 : 2;
    const Interpolate a{o.mode, last_sizes(c.result().shape, o.axes), o.aligns && c.flag(2),
                        scale_arguments(c, rest, o.axes)};
    return one(apply(c.graph(), "interpolate", {c.tensor(0)}, a));
  };
}

AtenImport by_factors(Overload o) {  // x, output_size?, [align_corners], scale_factors?
  return [o](AtenCall& c) {
    const std::size_t rest = o.aligns ? 3 : 2;
    Interpolate a{o.mode, last_sizes(c.result().shape, o.axes), o.aligns && c.flag(2), {}};
    if (!c.none(rest)) {
      for (const AtenArg& factor : std::get<std::vector<AtenArg>>(c.arg(rest).v)) {
        const double* number = std::get_if<double>(&factor.v);
        if (number == nullptr) return std::vector<Value*>{};
        a.scales.push_back(*number);
      }
    }
    return one(apply(c.graph(), "interpolate", {c.tensor(0)}, a));
  };
}

AtenImport gradient(Overload o) {  // grad, output_size, input_size, [align_corners], scales...
  return [o](AtenCall& c) {
    const DType t = compute_type(c.result().dtype);
    if (!is_float(t)) return std::vector<Value*>{};
    const Shape& in = c.result().shape;
    const auto scales = scale_arguments(c, o.aligns ? 4 : 3, o.axes);
    Value* grad = cast(c.graph(), c.tensor(0), t);
    if (std::string_view(o.mode) == "cubic" && in == grad->type().shape)
      return one(to_result(c, grad));
    for (std::size_t k = 0; k < o.axes; ++k) {
      const std::size_t axis = in.size() - o.axes + k;
      grad = resampled_gradient(c.graph(), grad, axis, in[axis],
                                {o.mode, o.aligns && c.flag(3), scales[k]});
    }
    return one(to_result(c, grad));
  };
}

// At most this many elements of a row of x for one of the result: resampling the others first does
// not compute much that nobody reads.
constexpr std::int64_t kMostShrinking = 4;

// Puts the axes of a new value in memory in the order of those of `from`, if that has one.
void use_layout_of(const Type& from, Value* value) {
  if (!from.strides) return;
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < from.shape.size(); ++d) {
    if (!(*from.strides)[d].is_const()) return;
    order.push_back(d);
  }
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t d) { return (*from.strides)[d].constant(); });
  if (std::ranges::is_sorted(order)) return;
  Type type = value->type();
  type.strides.emplace(order.size());
  Dim step = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    (*type.strides)[order[k]] = step;
    step *= type.shape[order[k]];
  }
  value->set_type(std::move(type));
}

}  // namespace

Value* separate_resampling(Graph& g, Node& node) {
  if (!node.is("interpolate")) return nullptr;
  const auto a = node.as<Interpolate>();
  const Type& in = node.input(0)->type();
  const Dims size = last_sizes(in.shape, a.size.size());
  const std::size_t last = size.size() - 1;
  const Shape others_in(size.begin(), size.end() - 1), others(a.size.begin(), a.size.end() - 1);
  if (is_nearest(a) || size.back() == a.size.back() || others_in == others) return nullptr;
  const bool last_first = known_le(product(others_in), product(others)) == true;
  if (!last_first && known_le(size.back(), a.size.back() * Dim(kMostShrinking)) != true)
    return nullptr;
  Interpolate of_last = a, of_others = a;
  for (std::size_t k = 0; k < last; ++k) of_last.size[k] = last_first ? size[k] : a.size[k];
  if (!last_first) of_others.size[last] = size[last];
  // What is between the steps is not rounded.
  Value* x = cast(g, node.input(0), compute_type(in.dtype));
  x = apply(g, "interpolate", {x}, last_first ? of_last : of_others);
  use_layout_of(in, x);
  x = apply(g, "interpolate", {x}, last_first ? of_others : of_last);
  return cast(g, x, in.dtype);
}

void register_interpolate() {
  Definition("interpolate", "The last axes of x resampled to a size.")
      .in({"x"})
      .attrs<Interpolate>()
      .traits(Trait::pure)
      .infer_one(interpolate_type)
      .map(interpolate_body)
      .sample([] {
        const Dim s = sample_size();
        return OpSample{{data({Dim(2), s + 2, Dim(3)})},
                        {{"mode", std::string("linear")}, {"size", Dims{s * 2, Dim(5)}}},
                        {}};
      })
      .define();
  for (const Overload& o : kOverloads) {
    const std::string name = str("aten.", o.kind, o.axes, "d");
    register_aten_row(name + ".default", by_sizes(o));
    register_aten_row(name + ".vec", by_factors(o));
    register_aten_row(name + "_backward.default", gradient(o));
  }
  register_antialias_rows();
  register_aten_facts(
      {"aten.upsample_bilinear2d", "aten.upsample_nearest2d", "aten.upsample_linear1d",
       "aten.upsample_trilinear3d", "aten.upsample_bicubic2d"},
      {.decomposition = AtenFacts::Decomposition::any});
}

}  // namespace gex::ops
