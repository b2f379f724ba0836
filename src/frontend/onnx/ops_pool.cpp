// Pools.

#include <algorithm>
#include <cmath>

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/windows.hpp"
#include "ops/pool.hpp"

namespace gex::onnx {
namespace {

using ops::Pool;

// x with its pads, and what ceil_mode adds, filled; then the windows fit exactly.
Value* filled(const Row& r, Value* x, const WindowSpec& w, double fill) {
  Dims high = w.high;
  bool any = false;
  for (std::size_t d = 0; d < high.size(); ++d) {
    high[d] = high[d] + w.beyond[d];
    any = any || !(w.low[d] == Dim(0)) || !(high[d] == Dim(0));
  }
  return any ? ops::pad(r.g, x, for_all_axes(w.low), for_all_axes(high), fill) : x;
}

Pool pool_of(const WindowSpec& w) {
  Pool a;
  a.kernel = w.kernel;
  a.stride = w.stride;
  a.dilation = w.dilation;
  a.padding = Ints(w.kernel.size(), 0);
  return a;
}

void add_plane(Pool& a) {
  for (Ints* list : {&a.kernel, &a.stride, &a.dilation}) list->insert(list->begin(), 1);
  a.padding.insert(a.padding.begin(), 0);
}

Value* apply_pool(const Row& r, const std::string& name, Value* x, Pool a, std::size_t output = 0) {
  const std::size_t axes = a.kernel.size();
  if (axes > 3) r.refuse(str("pools over ", axes, " spatial axes are not supported"));
  if (axes == 1) {
    add_plane(a);
    x = ops::unsqueeze(r.g, x, 2);
  }
  const Node* node = r.g.add(op(name + (axes == 3 ? "3d" : "2d")), {x}, to_attr_list(a));
  Value* y = node->output(output);
  return axes == 1 ? ops::squeeze(r.g, y, 2) : y;
}

// Sum over each window. With dilation: one axis after another, gathering the elements of the
// windows.
Value* sum_pool(const Row& r, Value* x, Pool a) {
  if (std::ranges::any_of(a.dilation, [](std::int64_t d) { return d != 1; })) {
    for (std::size_t d = 0; d < a.kernel.size(); ++d) {
      const auto axis = static_cast<std::int64_t>(d) + 2;
      const Dim size = x->type().shape[d + 2];
      const Dim windows =
          floordiv(size - Dim(a.dilation[d] * (a.kernel[d] - 1) + 1), a.stride[d]) + 1;
      Expr at = unsqueeze(iota(r.g, windows) * static_cast<double>(a.stride[d]), 1) +
                iota(r.g, a.kernel[d]) * static_cast<double>(a.dilation[d]);
      x = sum(take({r.g, x}, at, axis), {axis + 1}).to(x->type().dtype);
    }
    return x;
  }
  a.divisor = 1;
  return apply_pool(r, "avg_pool", x, a);
}

double lowest_of(DType t) {
  if (gex::is_float(t)) return -INFINITY;
  if (t == DType::u8 || t == DType::boolean) return 0;
  return -std::ldexp(1.0, static_cast<int>(size_of(t)) * 8 - 1);
}

Value* global_index(const Row& r, Value* local, const WindowSpec& w, Value* x, const Dims& padded);

Items max_pool(Row& r) {
  Value* x = r.in(0);
  const bool ceil = r.int_attr("ceil_mode", 0) != 0;
  const WindowSpec w = window_spec(r, r.ints_attr("kernel_shape"), spatial_of(x), ceil);
  Value* input = filled(r, x, w, lowest_of(r.dtype()));
  Items items = r.one(apply_pool(r, "max_pool", input, pool_of(w)));
  if (r.wants(1)) {
    Value* local = apply_pool(r, "max_pool", input, pool_of(w), 1);
    items.push_back(Item::tensor(global_index(r, local, w, x, spatial_of(input)), Elem::i64));
  }
  return items;
}

// Converts positions in the padded spatial axes to positions in the whole of x.
Value* global_index(const Row& r, Value* local, const WindowSpec& w, Value* x, const Dims& padded) {
  Graph& g = r.g;
  const Shape& s = x->type().shape;
  const std::size_t axes = w.kernel.size();
  const bool columns_first = r.int_attr("storage_order", 0) != 0;
  std::vector<Expr> coordinates;
  Expr rest(g, local);
  for (std::size_t d = axes; d-- > 0;) {
    Expr size(g, ops::dim_value(g, padded[d]));
    coordinates.insert(coordinates.begin(),
                       binary("mod", rest, size) - Expr(g, ops::dim_value(g, w.low[d])));
    rest = binary("floor_div", rest, size);
  }
  Expr place(g, ops::full(g, DType::i64, 0, local->type().shape));
  for (std::size_t k = 0; k < axes; ++k) {
    const std::size_t d = columns_first ? axes - 1 - k : k;
    place = place * Expr(g, ops::dim_value(g, s[d + 2])) + coordinates[d];
  }
  Expr image = iota(g, s[0] * s[1]);
  Shape shape(axes + 2, Dim(1));
  shape[0] = s[0];
  shape[1] = s[1];
  const Shape inner(s.begin() + 2, s.end());
  return reshape(image, shape) * Expr(g, ops::dim_value(g, product(inner))) + place;
}

// The number of elements that count in each window.
Value* counts(const Row& r, const WindowSpec& w, const Value* x, bool include_pads) {
  const Shape sizes = spatial_of(x);
  Shape shape{Dim(1), Dim(1)};
  Dims low(w.low.size()), high(w.low.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    shape.push_back(include_pads ? sizes[d] + w.low[d] + w.high[d] : sizes[d]);
    low[d] = include_pads ? Dim(0) : w.low[d];
    high[d] = w.beyond[d] + (include_pads ? Dim(0) : w.high[d]);
  }
  Value* ones = ops::full(r.g, x->type().dtype, 1, shape);
  return sum_pool(r, ops::pad(r.g, ones, for_all_axes(low), for_all_axes(high), 0), pool_of(w));
}

}  // namespace

Value* averages_of_windows(Row& r, Value* x) {
  const bool ceil = r.int_attr("ceil_mode", 0) != 0;
  const WindowSpec w = window_spec(r, r.ints_attr("kernel_shape"), spatial_of(x), ceil);
  Expr input(r.g, filled(r, x, w, 0));
  Expr total(r.g, sum_pool(r, input, pool_of(w)));
  Expr count(r.g, counts(r, w, x, r.int_attr("count_include_pad", 0) != 0));
  return total / count;
}

namespace {

Items average_pool(Row& r) {
  Value* x = r.in(0);
  const bool ceil = r.int_attr("ceil_mode", 0) != 0;
  const WindowSpec w = window_spec(r, r.ints_attr("kernel_shape"), spatial_of(x), ceil);
  const bool dense = std::ranges::all_of(w.dilation, [](std::int64_t d) { return d == 1; });
  const auto is_none = [](Dim d) { return d == Dim(0); };
  if (dense && std::ranges::all_of(w.low, is_none) && std::ranges::all_of(w.high, is_none) &&
      std::ranges::all_of(w.beyond, is_none))
    return r.one(apply_pool(r, "avg_pool", x, pool_of(w)));
  return r.one(ops::cast(r.g, averages_of_windows(r, wide(r, 0)), r.dtype()));
}

Items lp_pool(Row& r) {
  const bool ceil = r.int_attr("ceil_mode", 0) != 0;
  const WindowSpec w = window_spec(r, r.ints_attr("kernel_shape"), spatial_of(r.in(0)), ceil);
  const double p = static_cast<double>(r.int_attr("p", 2));
  Expr x = abs(wide(r, 0));
  Expr powered = binary("pow", x, x.number(p));
  Expr total(r.g, sum_pool(r, filled(r, powered, w, 0), pool_of(w)));
  return r.one(binary("pow", total, total.number(1 / p)).to(r.dtype()));
}

Ints spatial_axes(const Row& r) {
  Ints axes;
  for (int d = 2; d < r.rank(); ++d) axes.push_back(d);
  return axes;
}

Items max_unpool(Row& r) {
  Graph& g = r.g;
  const Shape s = r.shape();
  const Ints kernel = r.ints_attr("kernel_shape");
  const Ints stride = r.ints_attr("strides", Ints(kernel.size(), 1));
  const Ints pads = r.ints_attr("pads", Ints(2 * kernel.size(), 0));
  if (kernel.size() + 2 != s.size() || stride.size() != kernel.size() ||
      pads.size() != 2 * kernel.size())
    r.refuse("kernel, strides and pads do not match the spatial axes");
  Shape natural{s[0], s[1]};
  for (std::size_t d = 0; d < kernel.size(); ++d)
    natural.push_back((s[d + 2] - 1) * Dim(stride[d]) + Dim(kernel[d]) - Dim(pads[d]) -
                      Dim(pads[d + kernel.size()]));
  Value* flat = ops::full(g, r.dtype(), 0, {product(natural)});
  Value* put = ops::scatter(g, flat, ops::reshape(g, r.in(1), {product(s)}),
                            ops::reshape(g, r.in(0), {product(s)}), 0);
  Value* y = ops::reshape(g, put, natural);
  if (r.has(2)) {
    const Dims wanted = r.dims(2, "sizes of the result");
    Dims low(wanted.size()), high(wanted.size());
    for (std::size_t d = 0; d < wanted.size(); ++d) high[d] = wanted[d] - natural[d];
    y = ops::pad(g, y, low, high, 0);
  }
  return r.one(y);
}

}  // namespace

void add_pool_rows() {
  add_row("MaxPool", max_pool);
  add_row("AveragePool", average_pool);
  add_row("LpPool", lp_pool);
  add_row("MaxUnpool", max_unpool);
  add_row("GlobalAveragePool",
          [](Row& r) { return r.one(mean(wide(r, 0), spatial_axes(r), true).to(r.dtype())); });
  add_row("GlobalMaxPool",
          [](Row& r) { return r.one(ops::reduce_max(r.g, r.in(0), spatial_axes(r), true)); });
  add_row("GlobalLpPool", [](Row& r) {
    const double p = static_cast<double>(r.int_attr("p", 2));
    Expr x = abs(wide(r, 0));
    Expr total = sum(binary("pow", x, x.number(p)), spatial_axes(r), true);
    return r.one(binary("pow", total, total.number(1 / p)).to(r.dtype()));
  });
}

}  // namespace gex::onnx
