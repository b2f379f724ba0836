#include "ops/core/build.hpp"

#include <algorithm>
#include <cmath>

#include "ops/core/define.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

Value* apply(Graph& g, std::string_view op_name, std::vector<Value*> inputs) {
  return g.add(op_name, std::move(inputs))->output();
}

// --- constants ------------------------------------------------------------------------------

Value* full(Graph& g, DType dtype, double value, Shape shape) {
  return apply(g, "full", {}, Full{dtype, value, std::move(shape)});
}

Value* scalar(Graph& g, DType dtype, double value) { return full(g, dtype, value, {}); }

Value* scalar_int(Graph& g, DType dtype, std::int64_t value) {
  constexpr std::int64_t kExactInDouble = std::int64_t{1} << 53;
  if (is_float(dtype) || (value >= -kExactInDouble && value <= kExactInDouble)) {
    return scalar(g, dtype, static_cast<double>(value));
  }
  HostTensor tensor(dtype, {});
  tensor.set_int(0, value);
  return constant(g, std::move(tensor));
}

Value* constant(Graph& g, HostTensor tensor) {
  return apply(g, "constant", {}, Constant{std::make_shared<const HostTensor>(std::move(tensor))});
}

Value* dim_value(Graph& g, Dim value) { return apply(g, "dim", {}, OneDim{value}); }
Value* iota(Graph& g, Dim size) { return apply(g, "iota", {}, OneDim{size}); }
Value* zeros_like(Graph& g, Value* x) { return full(g, x->type().dtype, 0, x->type().shape); }

// --- elementwise ----------------------------------------------------------------------------

Value* cast(Graph& g, Value* x, DType dtype) {
  return x->type().dtype == dtype ? x : apply(g, "cast", {x}, Cast{dtype});
}

Value* add(Graph& g, Value* x, double b) { return add(g, x, scalar(g, x->type().dtype, b)); }
Value* sub(Graph& g, Value* x, double b) { return sub(g, x, scalar(g, x->type().dtype, b)); }
Value* mul(Graph& g, Value* x, double b) { return mul(g, x, scalar(g, x->type().dtype, b)); }
Value* div(Graph& g, Value* x, double b) { return div(g, x, scalar(g, x->type().dtype, b)); }
Value* square(Graph& g, Value* x) { return mul(g, x, x); }
Value* where(Graph& g, Value* condition, Value* yes, Value* no) {
  return apply(g, "where", {condition, yes, no});
}

// --- reductions -------------------------------------------------------------------------------

Value* reduce(Graph& g, std::string_view op_name, Value* x, Ints axes, bool keepdim) {
  for (auto& axis : axes) axis = normal_axis(axis, x->type().rank());
  std::sort(axes.begin(), axes.end());
  if (x->type().rank() == 0) axes.clear();
  return apply(g, op_name, {x}, Reduce{std::move(axes), keepdim});
}

Value* sum_to(Graph& g, Value* x, const Shape& shape) {
  const Shape& from = x->type().shape;
  const std::size_t extra = from.size() - shape.size();
  Ints axes;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool stretched = i >= extra && shape[i - extra] == Dim(1) && !(from[i] == Dim(1));
    if (i < extra || stretched) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (!axes.empty()) x = reduce_sum(g, x, axes);
  return reshape(g, x, shape);
}

Value* cumsum(Graph& g, Value* x, std::int64_t axis) {
  return apply(g, "cumsum", {x}, Axis{normal_axis(axis, x->type().rank())});
}
Value* softmax(Graph& g, Value* x, std::int64_t axis) {
  return apply(g, "softmax", {x}, Axis{normal_axis(axis, x->type().rank())});
}
Value* log_softmax(Graph& g, Value* x, std::int64_t axis) {
  return apply(g, "log_softmax", {x}, Axis{normal_axis(axis, x->type().rank())});
}

// --- views ------------------------------------------------------------------------------------

Value* reshape(Graph& g, Value* x, Shape shape) {
  return x->type().shape == shape ? x : apply(g, "reshape", {x}, ToShape{std::move(shape)});
}

Value* transpose(Graph& g, Value* x, Ints perm) {
  for (auto& axis : perm) axis = normal_axis(axis, x->type().rank());
  return perm == all_axes(x->type().rank())
             ? x
             : apply(g, "transpose", {x}, Transpose{std::move(perm)});
}

Value* swap_axes(Graph& g, Value* x, std::int64_t a, std::int64_t b) {
  const int rank = x->type().rank();
  Ints perm = all_axes(rank);
  if (rank == 0) return x;
  std::swap(perm[static_cast<std::size_t>(normal_axis(a, rank))],
            perm[static_cast<std::size_t>(normal_axis(b, rank))]);
  return transpose(g, x, std::move(perm));
}

Value* slice(Graph& g, Value* x, std::int64_t axis, Dim start, Dim size, std::int64_t step) {
  const Shape& shape = x->type().shape;
  const auto at = static_cast<std::size_t>(normal_axis(axis, x->type().rank()));
  if (start == Dim(0) && size == shape[at] && step == 1) return x;
  Slice s{Dims(shape.size()), Ints(shape.size(), 1), shape};
  s.starts[at] = start;
  s.steps[at] = step;
  s.sizes[at] = size;
  return apply(g, "slice", {x}, s);
}

Value* select(Graph& g, Value* x, std::int64_t axis, Dim index) {
  return squeeze(g, slice(g, x, axis, index, 1), axis);
}

Value* expand(Graph& g, Value* x, Shape shape) {
  return x->type().shape == shape ? x : apply(g, "expand", {x}, ToShape{std::move(shape)});
}

Value* squeeze(Graph& g, Value* x, std::int64_t axis) {
  Shape shape = x->type().shape;
  shape.erase(shape.begin() + normal_axis(axis, x->type().rank()));
  return reshape(g, x, std::move(shape));
}

Value* unsqueeze(Graph& g, Value* x, std::int64_t axis) {
  Shape shape = x->type().shape;
  shape.insert(shape.begin() + normal_axis(axis, x->type().rank() + 1), Dim(1));
  return reshape(g, x, std::move(shape));
}

Value* flip(Graph& g, Value* x, Ints axes) {
  for (auto& axis : axes) axis = normal_axis(axis, x->type().rank());
  return axes.empty() ? x : apply(g, "flip", {x}, Axes{std::move(axes)});
}

Value* roll(Graph& g, Value* x, std::int64_t axis, Dim start) {
  const Dim size = x->type().shape[static_cast<std::size_t>(axis)];
  // Along the last axis two parts are rows of neighbours, which remainders are not.
  if (axis + 1 == x->type().rank())
    return cat(g, {slice(g, x, axis, start, size - start), slice(g, x, axis, 0, start)}, axis);
  return apply(g, "roll", {x}, Roll{{axis}, {start}});
}

Value* cat(Graph& g, std::vector<Value*> xs, std::int64_t axis) {
  if (xs.size() == 1) return xs[0];
  const int rank = xs.empty() ? 0 : xs[0]->type().rank();
  return apply(g, "cat", std::move(xs), Axis{normal_axis(axis, rank)});
}

Value* pad(Graph& g, Value* x, Dims low, Dims high, double value) {
  return apply(g, "pad", {x}, Pad{std::move(low), std::move(high), value});
}

// --- gathers and scatters -----------------------------------------------------------------------

Value* index(Graph& g, Value* x, std::vector<Value*> indices, Ints axes) {
  std::vector<Value*> inputs{x};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  return apply(g, "index", std::move(inputs), Index{std::move(axes)});
}

Value* take(Graph& g, Value* x, Value* indices, std::int64_t axis) {
  return index(g, x, {indices}, {normal_axis(axis, x->type().rank())});
}

Value* take_along(Graph& g, Value* x, Value* indices, std::int64_t axis) {
  return apply(g, "take_along", {x, indices}, Axis{normal_axis(axis, x->type().rank())});
}

Value* index_put(Graph& g, Value* x, Value* values, std::vector<Value*> indices, Ints axes,
                 std::string mode) {
  std::vector<Value*> inputs{x, values};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  return apply(g, "index_put", std::move(inputs), IndexPut{std::move(axes), std::move(mode)});
}

Value* scatter(Graph& g, Value* x, Value* indices, Value* source, std::int64_t axis,
               std::string mode) {
  return apply(g, "scatter", {x, indices, source},
               Scatter{normal_axis(axis, x->type().rank()), std::move(mode)});
}

Value* slice_update(Graph& g, Value* x, Value* source, Dims starts, Ints steps) {
  return apply(g, "slice_update", {x, source}, SliceUpdate{std::move(starts), std::move(steps)});
}

// --- contractions -------------------------------------------------------------------------------

Value* matmul(Graph& g, Value* a, Value* b, bool wide) {
  return apply(g, "matmul", {a, b}, Matmul{wide});
}

Value* linear(Graph& g, Value* x, Value* weight, Value* bias) {
  const DType dtype = x->type().dtype;
  Value* transposed = swap_axes(g, weight, -1, -2);
  if (bias == nullptr) return matmul(g, x, transposed);
  Value* product = matmul(g, x, transposed, is_low_float(dtype));
  return cast(g, add(g, product, cast(g, bias, compute_type(dtype))), dtype);
}

Value* conv2d(Graph& g, Value* x, Value* weight, const Conv& attrs) {
  return apply(g, "conv2d", {x, weight}, attrs);
}

Value* attention(Graph& g, Value* q, Value* k, Value* v, Value* mask, const Attention& attrs) {
  const DType scores = compute_type(q->type().dtype);
  // Kernels add numbers to f64 scores only if they are f64 as well, and f64 numbers to no others.
  if (mask != nullptr && is_float(mask->type().dtype) &&
      (mask->type().dtype == DType::f64) != (scores == DType::f64))
    mask = cast(g, mask, scores);
  return apply(g, "attention", {q, k, v, mask}, attrs);
}

std::vector<Value*> expand_node(Graph& g, Node& node) {
  GEX_CHECK(node.op().expand, node.op().name, " has no expansion");
  InsertBefore at(g, &node);
  const std::string saved = g.current_location();
  g.set_location(node.location());
  std::vector<Value*> results = node.op().expand(g, node);
  g.set_location(saved);
  GEX_CHECK(results.size() == node.num_outputs(), node.op().name, ": expansion gives ",
            results.size(), " values");
  return results;
}

}  // namespace gex::ops
