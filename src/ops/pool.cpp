// Pooling over windows of the last two axes.

#include <limits>
#include <optional>

#include "ops/build.hpp"
#include "ops/define.hpp"
#include "ops/families.hpp"
#include "ops/fold.hpp"
#include "ops/rows.hpp"

namespace gex::ops {

namespace {

struct Pool {
  Ints kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  bool ceil = false;              // a last window may reach over the edge
  bool count_include_pad = true;  // avg_pool2d: padding counts as zeros
  double divisor = 0;             // avg_pool2d: instead of the count, if not 0
  static constexpr auto fields() {
    return std::tuple{
        field("kernel", &Pool::kernel),   field("stride", &Pool::stride),
        field("padding", &Pool::padding), field("dilation", &Pool::dilation),
        field("ceil", &Pool::ceil),       field("count_include_pad", &Pool::count_include_pad),
        field("divisor", &Pool::divisor)};
  }
};

Shape pooled_shape(const InferContext& c) {
  const auto a = c.as<Pool>();
  Shape shape = c.in(0).shape;
  if (shape.size() < 2 || a.kernel.size() != 2 || a.stride.size() != 2 || a.padding.size() != 2 ||
      a.dilation.size() != 2) {
    fail(ErrorCode::invalid_argument, c.op_name, ": ", c.in(0),
         " needs two axes, and kernel, stride, padding and dilation two entries each");
  }
  require_at_least(c, "kernel", a.kernel, 1);
  require_at_least(c, "stride", a.stride, 1);
  require_at_least(c, "dilation", a.dilation, 1);
  require_at_least(c, "padding", a.padding, 0);
  for (std::size_t k = 0; k < 2; ++k) {
    Dim& size = shape[shape.size() - 2 + k];
    const Dim room = size + Dim(2 * a.padding[k] - a.dilation[k] * (a.kernel[k] - 1) - 1);
    if (a.ceil) {
      // The last window must start inside the input or its left padding.
      size = min(ceildiv(room, a.stride[k]) + 1, ceildiv(size + Dim(a.padding[k]), a.stride[k]));
    } else {
      size = floordiv(room, a.stride[k]) + 1;
    }
  }
  return shape;
}

// Position of window element p = [..., oy, ox, ky, kx] in the input, and whether it is inside.
struct WindowElement {
  std::vector<Dim> at;
  Scalar inside;
};

WindowElement window_element(BodyContext& c, const Pool& a, Indices p) {
  const Shape& shape = c.in_type(0).shape;
  const std::size_t rank = shape.size();
  WindowElement e{{p.begin(), p.begin() + static_cast<std::ptrdiff_t>(rank)},
                  c.s.constant(DType::boolean, 1)};
  for (std::size_t k = 0; k < 2; ++k) {
    const std::size_t axis = rank - 2 + k;
    e.at[axis] = p[axis] * Dim(a.stride[k]) + p[rank + k] * Dim(a.dilation[k]) - Dim(a.padding[k]);
    if (a.padding[k] != 0 || a.ceil) {
      e.inside = c.s.logical_and(e.inside, c.s.in_bounds(e.at[axis], 0, shape[axis]));
    }
  }
  return e;
}

Scalar window_value(BodyContext& c, const WindowElement& e, Scalar fill) {
  return c.s.is_true(e.inside) ? c.in(0, e.at) : c.in(0, e.at, e.inside, fill);
}

loop::ReductionBody over_windows() {
  loop::ReductionBody body;
  body.shape = [](const Node& n) {
    Shape shape = n.output()->type().shape;
    for (std::int64_t size : n.as<Pool>().kernel) shape.push_back(size);
    return shape;
  };
  body.axes = [](const Node& n) {
    const int rank = n.output()->type().rank();
    return std::vector<int>{rank, rank + 1};
  };
  body.out_index = [](const Node&, Indices p) { return std::vector<Dim>(p.begin(), p.end() - 2); };
  return body;
}

Scalar lowest_value(BodyContext& c, DType t) {
  return is_float(t) ? c.s.constant(t, lowest(t))
                     : c.s.constant_int(t, accumulator("", t, lowest(t)).init_int);
}

std::vector<Type> max_pool_types(const InferContext& c) {
  require_dtype(c, 0, numeric);
  const Shape shape = pooled_shape(c);
  return {Type::tensor(c.in(0).dtype, shape), Type::tensor(DType::i64, shape)};
}

// The later of equal values never replaces the earlier one (there are two zeros), nor a NaN.
std::vector<Scalar> keep_larger(loop::ScalarBuilder& s, const Node&, std::span<const Scalar> a,
                                std::span<const Scalar> b) {
  Scalar wins = s.binary(Prim::gt, b[0], a[0]);
  if (is_float(a[0].dtype)) {
    const Scalar a_number = s.binary(Prim::eq, a[0], a[0]);
    const Scalar b_nan = s.unary(Prim::is_nan, b[0]);
    wins = s.binary(Prim::bit_or, wins, s.logical_and(b_nan, a_number));
  }
  return {s.select(wins, b[0], a[0])};
}

void register_max_pool_values() {
  loop::ReductionBody body = over_windows();
  body.accumulators = [](const Node& n) {
    const DType t = n.input(0)->type().dtype;
    return std::vector{accumulator("value", t, lowest(t))};
  };
  body.elements = [](BodyContext& c, Indices p) {
    const WindowElement e = window_element(c, c.node.as<Pool>(), p);
    return std::vector<Scalar>{window_value(c, e, lowest_value(c, c.in_type(0).dtype))};
  };
  body.combine = keep_larger;
  body.finish = [](BodyContext&, int, Indices, std::span<const Scalar> acc) { return acc[0]; };
  Definition("max_pool2d_values", "Largest element of each window.")
      .in({"x"})
      .attrs<Pool>()
      .traits(Trait::pure | Trait::reduction)
      .infer_one([](const InferContext& c) { return max_pool_types(c)[0]; })
      .reduction(std::move(body))
      .define();
}

void register_max_pool_indices() {
  loop::ReductionBody body = over_windows();
  body.accumulators = [](const Node& n) {
    const DType t = n.input(0)->type().dtype;
    return arg_accumulators(t, lowest(t));
  };
  body.elements = [](BodyContext& c, Indices p) {
    const WindowElement e = window_element(c, c.node.as<Pool>(), p);
    const Shape& shape = c.in_type(0).shape;
    const std::size_t rank = shape.size();
    // Padding loses every tie against a real element.
    const Scalar last = c.s.constant_int(DType::i64, std::numeric_limits<std::int64_t>::max());
    const Scalar position = c.s.index(e.at[rank - 2] * shape[rank - 1] + e.at[rank - 1]);
    return std::vector<Scalar>{window_value(c, e, lowest_value(c, c.in_type(0).dtype)),
                               c.s.select(e.inside, position, last)};
  };
  body.combine = combine_arg(Prim::gt);
  body.finish = [](BodyContext&, int, Indices, std::span<const Scalar> acc) { return acc[1]; };
  Definition("max_pool2d_indices",
             "Where the largest element of each window is in its plane (row-major).")
      .in({"x"})
      .attrs<Pool>()
      .traits(Trait::pure | Trait::reduction)
      .infer_one([](const InferContext& c) { return max_pool_types(c)[1]; })
      .reduction(std::move(body))
      .define();
}

void register_max_pool() {
  register_max_pool_values();
  register_max_pool_indices();
  // Two ops, so that a model that wants no gradient pays for no indices.
  Definition("max_pool2d",
             "Largest element of each window, and where it is in the plane (row-major).")
      .in({"x"})
      .out({"values", "indices"})
      .attrs<Pool>()
      .traits(Trait::pure)
      .infer(max_pool_types)
      .expand([](Graph& g, const Node& node) {
        const auto a = node.as<Pool>();
        return std::vector{apply(g, "max_pool2d_values", {node.input(0)}, a),
                           apply(g, "max_pool2d_indices", {node.input(0)}, a)};
      })
      .define();
}

// How many elements the window at p counts; PyTorch clips at the padded edge.
Dim window_count(const Shape& shape, const Pool& a, Indices p) {
  Dim count = 1;
  for (std::size_t k = 0; k < 2; ++k) {
    const std::size_t axis = shape.size() - 2 + k;
    Dim begin = p[axis] * Dim(a.stride[k]) - Dim(a.padding[k]);
    Dim end = min(begin + Dim(a.kernel[k]), shape[axis] + Dim(a.padding[k]));
    if (!a.count_include_pad) {
      begin = max(begin, 0);
      end = min(end, shape[axis]);
    }
    count *= end - begin;
  }
  return count;
}

void register_avg_pool() {
  loop::ReductionBody body = over_windows();
  body.accumulators = [](const Node& n) {
    return std::vector{accumulator("a", compute_type(n.input(0)->type().dtype), 0)};
  };
  body.elements = [](BodyContext& c, Indices p) {
    const DType t = c.in_type(0).dtype;
    const WindowElement e = window_element(c, c.node.as<Pool>(), p);
    return std::vector<Scalar>{c.s.cast(window_value(c, e, c.s.constant(t, 0)), compute_type(t))};
  };
  body.combine = combine_by(Prim::add);
  body.finish = [](BodyContext& c, int, Indices p, std::span<const Scalar> acc) {
    const auto a = c.node.as<Pool>();
    const DType t = acc[0].dtype;
    const Scalar count = a.divisor != 0
                             ? c.s.constant(t, a.divisor)
                             : c.s.cast(c.s.index(window_count(c.in_type(0).shape, a, p)), t);
    return c.s.cast(c.s.div(acc[0], count), c.out_type().dtype);
  };
  Definition("avg_pool2d", "Mean of each window.")
      .in({"x"})
      .attrs<Pool>()
      .traits(Trait::pure | Trait::reduction)
      .infer_one([](const InferContext& c) {
        require_dtype(c, 0, floating);
        if (c.as<Pool>().dilation != Ints{1, 1}) {
          fail(ErrorCode::invalid_argument, "avg_pool2d: windows have no dilation");
        }
        return Type::tensor(c.in(0).dtype, pooled_shape(c));
      })
      .reduction(std::move(body))
      .define();
}

// --- rows -------------------------------------------------------------------------------------

Ints two(const AtenCall& c, std::size_t i) {
  Ints values = c.integers(i);
  if (values.size() == 1) values.push_back(values[0]);
  return values;
}

// kernel, stride and padding are arguments 1 to 3; an empty stride is the kernel.
Pool pool_arguments(const AtenCall& c) {
  Pool a;
  a.kernel = two(c, 1);
  a.stride = two(c, 2);
  if (a.stride.empty()) a.stride = a.kernel;
  a.padding = two(c, 3);
  return a;
}

std::vector<Value*> import_max_pool(AtenCall& c) {  // ..., dilation, ceil_mode
  Pool a = pool_arguments(c);
  a.dilation = two(c, 4);
  a.ceil = c.flag(5);
  Node* n = c.graph().add(op("max_pool2d"), {c.tensor(0)}, a);
  return {n->output(0), n->output(1)};
}

std::vector<Value*> import_avg_pool(AtenCall& c) {  // ..., ceil, count_include_pad, divisor
  Pool a = pool_arguments(c);
  a.ceil = c.flag(4);
  a.count_include_pad = c.flag(5);
  a.divisor = c.none(6) ? 0 : c.number(6);
  return one(apply(c.graph(), "avg_pool2d", {c.tensor(0)}, a));
}

// Where the output size divides the input, windows are tiles: [..., oy, ky, ox, kx].
std::optional<Shape> tiles(const Shape& x, const Shape& y) {
  const std::size_t rank = x.size();
  Shape shape(x.begin(), x.end() - 2);
  for (std::size_t axis : {rank - 2, rank - 1}) {
    if (known_eq(mod(x[axis], y[axis]), 0) != true) return std::nullopt;
    shape.push_back(y[axis]);
    shape.push_back(floordiv(x[axis], y[axis]));
  }
  return shape;
}

std::vector<Value*> import_adaptive_avg_pool(AtenCall& c) {
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  const auto shape = tiles(x->type().shape, c.result().shape);
  if (!shape) return {};
  Value* tiled = reshape(g, x, *shape);
  return one(reduce_mean(g, tiled, {-1, -3}));
}

std::vector<Value*> import_adaptive_avg_pool_backward(AtenCall& c) {  // grad, x
  Graph& g = c.graph();
  Value* grad = c.tensor(0);
  const auto shape = tiles(c.result().shape, grad->type().shape);
  if (!shape) return {};
  const DType t = compute_type(grad->type().dtype);
  const std::size_t rank = shape->size();
  const Dim count = (*shape)[rank - 1] * (*shape)[rank - 3];
  Value* share = div(g, cast(g, grad, t), cast(g, dim_value(g, count), t));
  Shape spread = *shape;
  spread[rank - 1] = spread[rank - 3] = 1;
  share = expand(g, reshape(g, share, spread), *shape);
  return one(to_result(c, reshape(g, share, c.result().shape)));
}

// grad, x, kernel, stride, padding, dilation, ceil, indices
std::vector<Value*> import_max_pool_backward(AtenCall& c) {
  Graph& g = c.graph();
  auto flat = [](Shape shape) {
    const std::size_t rank = shape.size();
    shape[rank - 2] = shape[rank - 2] * shape[rank - 1];
    shape.pop_back();
    return shape;
  };
  Value* grad = c.tensor(0);
  const Shape windows = flat(grad->type().shape);
  Value* zeros = full(g, c.result().dtype, 0, flat(c.result().shape));
  Value* summed =
      scatter(g, zeros, reshape(g, c.tensor(7), windows), reshape(g, grad, windows), -1, "add");
  return one(reshape(g, summed, c.result().shape));
}

// Whole-number magnification repeats rows and columns.
std::vector<Value*> import_upsample_nearest(AtenCall& c) {
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  const auto shape = tiles(c.result().shape, x->type().shape);
  if (!shape) return {};
  Shape spread = *shape;
  spread[spread.size() - 1] = spread[spread.size() - 3] = 1;
  return one(reshape(g, expand(g, reshape(g, x, spread), *shape), c.result().shape));
}

}  // namespace

void register_pool() {
  register_max_pool();
  register_avg_pool();
  register_aten_row("aten.max_pool2d_with_indices.default", import_max_pool);
  register_aten_row("aten.max_pool2d_with_indices_backward.default", import_max_pool_backward);
  register_aten_row("aten.avg_pool2d.default", import_avg_pool);
  register_aten_row("aten._adaptive_avg_pool2d.default", import_adaptive_avg_pool);
  register_aten_row("aten._adaptive_avg_pool2d_backward.default",
                    import_adaptive_avg_pool_backward);
  register_aten_row("aten.upsample_nearest2d.vec", import_upsample_nearest);
  register_aten_row("aten.upsample_nearest2d.default", import_upsample_nearest);
}

}  // namespace gex::ops
