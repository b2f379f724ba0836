#include "ops/rows/nonzero.hpp"

#include <algorithm>

#include "ops/control.hpp"
#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

// Whether an earlier node defines the symbol: PyTorch counts one mask once.
bool is_known(const Graph& g, Dim symbol) {
  const auto gives = [&](const Node& node) {
    if (node.is("bind")) return node.as<Bind>().symbol == symbol;
    for (std::size_t k = 0; k < node.num_outputs(); ++k) {
      const Type& type = node.output(k)->type();
      if (!type.is_token() && std::ranges::find(type.shape, symbol) != type.shape.end())
        return true;
    }
    return false;
  };
  for (const Node& node : g.nodes())
    if (gives(node)) return true;
  return false;
}

// For each element of the flat mask: how many true ones come before it. False elements, and true
// ones beyond `count`, go to the extra position `count` after the others.
Value* place_among_true(Graph& g, Value* flat, Dim count) {
  Value* place = sub(g, cumsum(g, cast(g, flat, DType::i64), 0), scalar_int(g, DType::i64, 1));
  Value* end = dim_value(g, count);
  return where(g, bit_and(g, flat, lt(g, place, end)), place, end);
}

std::vector<Value*> import_nonzero(AtenCall& c) {
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  const Shape& shape = x->type().shape;
  if (shape.empty()) return {};
  Value* mask = x->type().dtype == DType::boolean ? x : ne(g, x, scalar_int(g, x->type().dtype, 0));
  Value* places = true_places(g, mask, c.result().shape[0]);
  std::vector<Value*> columns(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    // An empty axis selects nothing, but its size must not be a zero divisor.
    Value* size = dim_value(g, max(shape[axis], 1));
    columns[axis] = unsqueeze(g, mod(g, places, size), 1);
    places = floor_div(g, places, size);
  }
  return one(to_result(c, columns.size() == 1 ? columns[0] : cat(g, columns, 1)));
}

std::vector<Value*> import_masked_select(AtenCall& c) {  // x, mask
  Graph& g = c.graph();
  Value *x = c.tensor(0), *mask = c.tensor(1);
  const Shape shape = broadcast_shapes(x->type().shape, mask->type().shape, "masked_select");
  Value* places = true_places(g, expand(g, mask, shape), c.result().shape[0]);
  Value* flat = reshape(g, expand(g, x, shape), {product(shape)});
  return one(take(g, flat, places, 0));
}

// What the mask selects of the gradient, in the source's shape; zeros where nothing was taken.
std::vector<Value*> import_masked_scatter_backward(AtenCall& c) {  // grad, mask, sizes
  Graph& g = c.graph();
  const Shape& shape = c.tensor(0)->type().shape;
  const Dim size = product(shape), room = c.result().numel();
  Value* grad = reshape(g, c.tensor(0), {size});
  Value* mask = reshape(g, expand(g, c.tensor(1), shape), {size});
  Value* taken = place_among_true(g, mask, room);
  Value* zeros = full(g, grad->type().dtype, 0, {room + 1});
  Value* all = slice(g, index_put(g, zeros, grad, {taken}, {0}), 0, 0, room);
  return one(reshape(g, all, c.result().shape));
}

}  // namespace

Value* true_places(Graph& g, Value* mask, Dim count) {
  const Dim size = mask->type().numel();
  Value* flat = reshape(g, mask, {size});
  if (count.is_symbol() && !is_known(g, count))
    g.add(op("bind"), {reduce_sum(g, cast(g, flat, DType::i64), {0})}, Bind{count});
  Value* to = place_among_true(g, flat, count);
  Value* places = index_put(g, full(g, DType::i64, 0, {count + 1}), iota(g, size), {to}, {0});
  return slice(g, places, 0, 0, count);
}

Value* selected_by_mask(AtenCall& c, Value* x, Value* mask) {
  Graph& g = c.graph();
  const Shape &shape = x->type().shape, &masked = mask->type().shape;
  if (masked.empty() || masked.size() > shape.size()) return nullptr;
  Shape rows{mask->type().numel()};
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (k >= masked.size()) rows.push_back(shape[k]);
    if (k < masked.size() && !provably_eq(shape[k], masked[k])) return nullptr;
  }
  return take(g, reshape(g, x, rows), true_places(g, mask, c.result().shape[0]), 0);
}

void register_nonzero_rows() {
  register_aten_row("aten.nonzero.default", import_nonzero);
  register_aten_row("aten.masked_select.default", import_masked_select);
  register_aten_row("aten.masked_scatter_backward.default", import_masked_scatter_backward);
}

}  // namespace gex::ops
