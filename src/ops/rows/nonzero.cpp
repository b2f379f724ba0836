#include "ops/rows/nonzero.hpp"

#include <algorithm>

#include "ops/control.hpp"
#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

bool has_size(const Value& value, Dim symbol) {
  const Type& type = value.type();
  return !type.is_token() && std::ranges::find(type.shape, symbol) != type.shape.end();
}

// Whether an input or an earlier node defines the symbol.
bool is_known(const Graph& g, Dim symbol) {
  for (const auto& input : g.inputs())
    if (has_size(*input, symbol)) return true;
  for (const Node& node : g.nodes()) {
    if (node.is("bind") && node.as<Bind>().symbol == symbol) return true;
    for (std::size_t k = 0; k < node.num_outputs(); ++k)
      if (has_size(*node.output(k), symbol)) return true;
  }
  return false;
}

// Whether `count` is the size that was bound to the number of true elements of this very mask:
// PyTorch counts one mask once.
bool counts(const Graph& g, const Value* mask, Dim count) {
  for (const Node& node : g.nodes()) {
    if (!node.is("bind") || node.as<Bind>().symbol != count) continue;
    const Value* from = node.input(0);  // see number_true
    while (from != mask && !from->is_input() && from->producer()->inputs().size() == 1)
      from = from->producer()->input(0);
    return from == mask;
  }
  return false;
}

Value* flattened(Graph& g, Value* mask) { return reshape(g, mask, {mask->type().numel()}); }

Value* number_true(Graph& g, Value* mask) {
  return reduce_sum(g, cast(g, flattened(g, mask), DType::i64), {0});
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
  Value* places = true_places(c, mask, c.result().shape[0]);
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
  Value* places = true_places(c, expand(g, mask, shape), c.result().shape[0]);
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

// Positions of the first `count` true elements; 0 where there are fewer.
Value* first_true_places(Graph& g, Value* mask, Dim count) {
  Value* flat = flattened(g, mask);
  Value* to = place_among_true(g, flat, count);
  Value* places =
      index_put(g, full(g, DType::i64, 0, {count + 1}), iota(g, flat->type().numel()), {to}, {0});
  return slice(g, places, 0, 0, count);
}

}  // namespace

Value* true_places(Graph& g, Value* mask, Dim count) {
  g.add(op("bind"), {number_true(g, mask)}, Bind{count});
  return first_true_places(g, mask, count);
}

Value* true_places(AtenCall& c, Value* mask, Dim count) {
  Graph& g = c.graph();
  if (count.is_symbol() && !is_known(g, count)) return true_places(g, mask, count);
  if (!counts(g, mask, count)) c.expect_size(number_true(g, mask), count);
  return first_true_places(g, mask, count);
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
  return take(g, reshape(g, x, rows), true_places(c, mask, c.result().shape[0]), 0);
}

void register_nonzero_rows() {
  register_aten_row("aten.nonzero.default", import_nonzero);
  register_aten_row("aten.masked_select.default", import_masked_select);
  register_aten_row("aten.masked_scatter_backward.default", import_masked_scatter_backward);
}

}  // namespace gex::ops
