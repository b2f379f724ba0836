// Pools over the last two or three axes.

#include "ops/pool.hpp"

#include <limits>

#include "ops/core/build.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/core/separable.hpp"
#include "ops/fold.hpp"

namespace gex::ops {

namespace {

ShapeRule pooled_shape(std::size_t axes) {
  return [axes](const InferContext& c) {
    const auto a = c.as<Pool>();
    require_windows(c, axes, a.kernel, a.stride, a.padding, a.dilation);
    Shape shape = c.in(0).shape;
    for (std::size_t k = 0; k < axes; ++k) {
      Dim& size = shape[shape.size() - axes + k];
      size = pooled_size(size, a.kernel[k], a.stride[k], a.padding[k], a.dilation[k], a.ceil);
    }
    return shape;
  };
}

Scalar element_value(BodyContext& c, const Place& e, Scalar fill) {
  return c.s.is_true(e.inside) ? c.in(0, e.at) : c.in(0, e.at, e.inside, fill);
}

Scalar lowest_value(BodyContext& c, DType t) {
  return is_float(t) ? c.s.constant(t, lowest(t))
                     : c.s.constant_int(t, accumulator("", t, lowest(t)).init_int);
}

loop::ReductionBody max_values(const WindowForm& form) {
  loop::ReductionBody body = over_windows(form);
  body.accumulators = [](const Node& n) {
    const DType t = n.input(0)->type().dtype;
    return std::vector{accumulator("value", t, lowest(t))};
  };
  body.elements = [form](BodyContext& c, Indices p) {
    const Place e = form.element(c, p);
    return std::vector<Scalar>{element_value(c, e, lowest_value(c, c.in_type(0).dtype))};
  };
  body.combine = combine_by(Prim::max);
  body.finish = [](BodyContext&, int, Indices, std::span<const Scalar> acc) { return acc[0]; };
  return body;
}

loop::ReductionBody max_indices(const WindowForm& form, std::size_t axes) {
  loop::ReductionBody body = over_windows(form);
  body.accumulators = [](const Node& n) {
    const DType t = n.input(0)->type().dtype;
    return arg_accumulators(t, lowest(t));
  };
  body.elements = [form, axes](BodyContext& c, Indices p) {
    const Place e = form.element(c, p);
    // Padding loses every tie against a real element.
    const Scalar last = c.s.constant_int(DType::i64, std::numeric_limits<std::int64_t>::max());
    const Scalar position = c.s.index(plane_position(e.at, c.in_type(0).shape, axes));
    return std::vector<Scalar>{element_value(c, e, lowest_value(c, c.in_type(0).dtype)),
                               c.s.select(e.inside, position, last)};
  };
  body.combine = combine_arg(Prim::gt);
  body.finish = [](BodyContext&, int, Indices, std::span<const Scalar> acc) { return acc[1]; };
  return body;
}

// Two ops, so that a model without gradients does not compute indices.
template <class Attributes>
void register_max(const std::string& name, std::size_t axes, const WindowForm& form,
                  const ShapeRule& rule) {
  auto types = [rule](const InferContext& c) {
    require_dtype(c, 0, numeric);
    const Shape shape = rule(c);
    return std::vector{Type::tensor(c.in(0).dtype, shape), Type::tensor(DType::i64, shape)};
  };
  Definition(name + "_values", "Largest element of each window.")
      .in({"x"})
      .attrs<Attributes>()
      .traits(Trait::pure | Trait::reduction)
      .infer_one([types](const InferContext& c) { return types(c)[0]; })
      .reduction(max_values(form))
      .sample(pool_sample(axes, std::is_same_v<Attributes, Adaptive>, false, false))
      .define();
  Definition(name + "_indices",
             "Where the largest element of each window is in the pooled axes (row-major).")
      .in({"x"})
      .attrs<Attributes>()
      .traits(Trait::pure | Trait::reduction)
      .infer_one([types](const InferContext& c) { return types(c)[1]; })
      .reduction(max_indices(form, axes))
      .sample(pool_sample(axes, std::is_same_v<Attributes, Adaptive>, false, false))
      .define();
  Definition(name,
             "Largest element of each window, and where it is in the pooled axes (row-major).")
      .in({"x"})
      .out({"values", "indices"})
      .attrs<Attributes>()
      .traits(Trait::pure)
      .infer(types)
      .expand([name](Graph& g, const Node& node) {
        const auto a = node.as<Attributes>();
        return std::vector{apply(g, name + "_values", {node.input(0)}, a),
                           apply(g, name + "_indices", {node.input(0)}, a)};
      })
      .sample(pool_sample(axes, std::is_same_v<Attributes, Adaptive>, false, false))
      .define();
}

template <class Attributes>
void register_mean(const std::string& name, std::size_t axes, const WindowForm& form,
                   const ShapeRule& rule) {
  loop::ReductionBody body = sum_over_windows(form);
  body.elements = [form](BodyContext& c, Indices p) {
    const DType t = c.in_type(0).dtype;
    const Place e = form.element(c, p);
    return std::vector<Scalar>{c.s.cast(element_value(c, e, c.s.constant(t, 0)), compute_type(t))};
  };
  body.finish = [form](BodyContext& c, int, Indices p, std::span<const Scalar> acc) {
    const Scalar count = form.count(c, p, c.in_type(0).shape, acc[0].dtype);
    return c.s.cast(c.s.div(acc[0], count), c.out_type().dtype);
  };
  define_mean<Attributes>(name, "Mean of each window.", "x", rule, std::move(body),
                          pool_sample(axes, std::is_same_v<Attributes, Adaptive>, false, false));
}

ShapeRule without_dilation(std::size_t axes) {
  return [axes](const InferContext& c) {
    if (c.as<Pool>().dilation != Ints(axes, 1)) {
      fail(ErrorCode::invalid_argument, c.op_name, ": dilation is not supported");
    }
    return pooled_shape(axes)(c);
  };
}

// Costs of a vector of results, in loads of neighbouring elements.
constexpr double kStoreAndLoad = 2.5;
double load_cost(std::int64_t step) { return step == 1 ? 1 : 1.5 * static_cast<double>(step); }

// Whether maxima over the other axes first, then over the last one, are cheaper.
bool separating_pays(const Pool& a) {
  double others = 1;
  for (std::size_t k = 0; k + 1 < a.kernel.size(); ++k) others *= static_cast<double>(a.kernel[k]);
  const double last = static_cast<double>(a.kernel.back()) * load_cost(a.stride.back());
  const auto width = static_cast<double>(a.stride.back());  // of the first step, per result
  return (others + kStoreAndLoad) * width + last < 0.9 * others * last;
}

}  // namespace

Value* separate_maxima(Graph& g, Node& node) {
  const std::size_t axes = node.is("max_pool2d_values") ? 2 : node.is("max_pool3d_values") ? 3 : 0;
  if (axes == 0) return nullptr;
  auto a = node.as<Pool>();
  if (!separating_pays(a)) return nullptr;
  // With the channels last in memory all axes of a window cost the same.
  const auto& strides = node.input(0)->type().strides;
  if (strides && !(strides->back() == Dim(1))) return nullptr;
  const Shape& in = node.input(0)->type().shape;
  const Shape& out = node.output()->type().shape;
  const std::size_t last = axes - 1, first_axis = in.size() - axes;
  a.ceil = false;
  for (std::size_t k = 0; k < axes; ++k)
    a.ceil |= out[first_axis + k] != pooled_size(in[first_axis + k], a.kernel[k], a.stride[k],
                                                 a.padding[k], a.dilation[k], false);
  // Windows that extend over the edge are not allowed to begin in the padding on the right.
  if (a.ceil && a.padding[last] != 0) return nullptr;
  Pool first = a, second = a;
  first.kernel[last] = first.stride[last] = first.dilation[last] = 1;
  for (std::size_t k = 0; k < last; ++k) {
    second.kernel[k] = second.stride[k] = second.dilation[k] = 1;
    second.padding[k] = 0;
  }
  second.padding[last] = 0;
  Value* rows = apply(g, node.op().name, {node.input(0)}, first);
  return apply(g, node.op().name, {rows}, second);
}

std::function<OpSample()> pool_sample(std::size_t axes, bool adaptive, bool gradient,
                                      bool with_indices) {
  return [=] {
    const Dim s = sample_size();
    Shape image{Dim(2), s + 3}, windows{Dim(2), s + 1};
    image.resize(axes + 1, Dim(6));
    windows.resize(axes + 1, Dim(3));
    const Dims in(image.begin() + 1, image.end()), out(windows.begin() + 1, windows.end());
    OpSample sample;
    sample.inputs.push_back(data(gradient ? windows : image));
    if (with_indices) sample.inputs.push_back(index_data(windows));
    if (!adaptive)
      sample.attrs = {{"kernel", Ints(axes, 3)},
                      {"stride", Ints(axes, 2)},
                      {"padding", Ints(axes, 1)},
                      {"dilation", Ints(axes, 1)}};
    if (adaptive || gradient) sample.attrs.push_back({"size", gradient ? in : out});
    return sample;
  };
}

void register_pool() {
  for (std::size_t axes : {2, 3}) {
    register_max<Pool>(pool_name("max_pool", axes), axes, kPoolWindows, pooled_shape(axes));
    register_max<Adaptive>(pool_name("adaptive_max_pool", axes), axes, kAdaptiveWindows,
                           adaptive_shape(axes));
    register_mean<Pool>(pool_name("avg_pool", axes), axes, kPoolWindows, without_dilation(axes));
    register_mean<Adaptive>(pool_name("adaptive_avg_pool", axes), axes, kAdaptiveWindows,
                            adaptive_shape(axes));
  }
}

}  // namespace gex::ops
