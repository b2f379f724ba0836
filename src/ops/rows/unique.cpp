// Distinct elements: sorted, with inverse indices and counts. Their number is known only at run
// time. And the most frequent one.

#include "ops/core/build.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/nonzero.hpp"
#include "ops/rows/rows.hpp"
#include "ops/sort.hpp"

namespace gex::ops {

namespace {

// True at the first element and wherever one along `axis` differs from its predecessor; NaN differs
// from everything.
Value* starts_of_runs(Graph& g, Value* x, std::int64_t axis) {
  const auto a = static_cast<std::size_t>(axis);
  const Dim size = x->type().shape[a];
  Shape along(x->type().shape.size(), Dim(1));
  along[a] = size;
  Value* place = iota(g, size);
  Value* zero = scalar_int(g, DType::i64, 0);
  Value* before = maximum(g, sub(g, place, scalar_int(g, DType::i64, 1)), zero);
  Value* is_first = reshape(g, eq(g, place, zero), along);
  return bit_or(g, is_first, ne(g, x, take(g, x, before, axis)));
}

// Numbers the runs from 0: i64, one per element.
Value* number_of_run(Graph& g, Value* starts, std::int64_t axis) {
  return sub(g, cumsum(g, cast(g, starts, DType::i64), axis), scalar_int(g, DType::i64, 1));
}

Node* sorted_along(Graph& g, Value* x, std::int64_t axis, bool stable = true) {
  return g.add(op("sort"), {x}, Sort{axis, false, stable});
}

// For each row [k, n]: the rank of its elements among its distinct ones.
Value* ranks(Graph& g, Value* x) {
  Node* sorted = sorted_along(g, x, 1);
  Value* rank = number_of_run(g, starts_of_runs(g, sorted->output(0), 1), 1);
  return scatter(g, full(g, DType::i64, 0, x->type().shape), sorted->output(1), rank, 1);
}

Value* sortable(Graph& g, Value* x) {
  return x->type().dtype == DType::boolean ? cast(g, x, DType::u8) : x;
}

// Rows [n, k] as numbers with the same order, i64[n]: ranks of columns, then of pairs of them, of
// pairs of these, and so on.
Value* ranks_of_rows(Graph& g, Value* rows, std::int64_t columns) {
  const Dim count = rows->type().shape[0];
  Value* rank = ranks(g, transpose(g, sortable(g, rows), {1, 0}));
  while (columns > 1) {
    if (columns % 2 == 1) rank = pad(g, rank, Dims(2), {Dim(1), Dim(0)});
    columns = (columns + 1) / 2;
    Value* pairs = reshape(g, rank, {Dim(columns), Dim(2), count});
    Value* high = mul(g, select(g, pairs, 1, 0), dim_value(g, count));
    rank = ranks(g, add(g, high, select(g, pairs, 1, 1)));
  }
  return reshape(g, rank, {count});
}

// `rows` has runs of equal elements along axis 0, after reordering by `order` unless that is null;
// `starts` marks the first element of each run. Returns the results of the call: the distinct
// elements along `axis`, the run of each element, the length of each run.
std::vector<Value*> results(AtenCall& c, Value* rows, std::int64_t axis, Value* starts,
                            Value* order) {
  Graph& g = c.graph();
  const Dim size = starts->type().shape[0];
  const Dim count = c.result().shape[static_cast<std::size_t>(axis)];
  Value* first = true_places(c, starts, count);

  Value* distinct = take(g, rows, order ? take(g, order, first, 0) : first, 0);
  Ints back(rows->type().shape.size());
  for (std::size_t k = 0; k < back.size(); ++k) {
    const auto at = static_cast<std::int64_t>(k);
    back[k] = at == axis ? 0 : at < axis ? at + 1 : at;
  }
  distinct = transpose(g, distinct, back);

  Value* inverse = number_of_run(g, starts, 0);
  if (order) inverse = index_put(g, full(g, DType::i64, 0, {size}), inverse, {order}, {0});

  Value* next = add(g, iota(g, count), scalar_int(g, DType::i64, 1));
  Value* is_last = eq(g, next, dim_value(g, count));
  Value* end = take(g, first, where(g, is_last, scalar_int(g, DType::i64, 0), next), 0);
  Value* lengths = sub(g, where(g, is_last, dim_value(g, size), end), first);

  // Results that were not requested are empty.
  const auto as_promised = [&](Value* value, std::size_t k) {
    const Shape& shape = c.result(k).shape;
    return shape == Shape{Dim(0)} ? full(g, DType::i64, 0, shape) : reshape(g, value, shape);
  };
  return {to_result(c, distinct), as_promised(inverse, 1), as_promised(lengths, 2)};
}

Value* flat(Graph& g, Value* x) { return reshape(g, x, {x->type().numel()}); }

std::vector<Value*> import_unique(AtenCall& c) {  // x, sorted, return_inverse, return_counts
  Graph& g = c.graph();
  Value* x = flat(g, c.tensor(0));
  Node* sorted = sorted_along(g, sortable(g, x), 0);
  return results(c, x, 0, starts_of_runs(g, sorted->output(0), 0), sorted->output(1));
}

// The axis moved to the front; its size and the product of the others.
struct Rows {
  Value* x = nullptr;
  std::int64_t axis = 0;
  Dim size, columns;
};

Rows with_axis_in_front(AtenCall& c, std::size_t dim) {
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  const Shape& shape = x->type().shape;
  if (shape.empty() || c.result().shape.size() != shape.size()) return {};
  Rows rows;
  rows.axis = normal_axis(c.integer(dim), x->type().rank());
  Ints order{rows.axis};
  for (std::int64_t k = 0; k < x->type().rank(); ++k)
    if (k != rows.axis) order.push_back(k);
  rows.x = transpose(g, x, order);
  rows.size = shape[static_cast<std::size_t>(rows.axis)];
  Shape rest = rows.x->type().shape;
  rest.erase(rest.begin());
  rows.columns = product(rest);
  return rows;
}

std::vector<Value*> import_unique_dim(AtenCall& c) {  // x, dim, sorted, inverse, counts
  Graph& g = c.graph();
  const Rows rows = with_axis_in_front(c, 1);
  const auto columns = rows.columns.as_const();
  if (!rows.x || !columns || *columns == 0) return {};
  Value* rank = ranks_of_rows(g, reshape(g, rows.x, {rows.size, rows.columns}), *columns);
  Node* sorted = sorted_along(g, rank, 0);
  return results(c, rows.x, rows.axis, starts_of_runs(g, sorted->output(0), 0), sorted->output(1));
}

std::vector<Value*> import_unique_consecutive(AtenCall& c) {  // x, inverse, counts, dim
  Graph& g = c.graph();
  if (c.none(3)) {
    Value* x = flat(g, c.tensor(0));
    return results(c, x, 0, starts_of_runs(g, x, 0), nullptr);
  }
  const Rows rows = with_axis_in_front(c, 3);
  if (!rows.x || known_lt(Dim(0), rows.columns) != true) return {};
  Value* table = reshape(g, rows.x, {rows.size, rows.columns});
  Value* starts = reduce(g, "reduce_any", starts_of_runs(g, table, 0), {1});
  return results(c, rows.x, rows.axis, starts, nullptr);
}

// The most frequent element, the smallest of several, and its index. In sorted order the longest
// run ends where an element is farthest from the start of its run.
std::vector<Value*> import_mode(AtenCall& c) {  // x, dim, keepdim
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  if (x->type().rank() == 0) return {x, scalar_int(g, DType::i64, 0)};
  const std::int64_t axis = normal_axis(c.integer(1), x->type().rank());
  // PyTorch itself raises the error.
  if (known_lt(Dim(0), x->type().shape[static_cast<std::size_t>(axis)]) != true) return {};
  // The returned index of equal elements depends on the sort: eager's is not stable.
  Node* sorted = sorted_along(g, sortable(g, x), axis, false);
  Value* starts = starts_of_runs(g, sorted->output(0), axis);
  Shape along(x->type().shape.size(), Dim(1));
  along[static_cast<std::size_t>(axis)] = x->type().shape[static_cast<std::size_t>(axis)];
  Value* place = reshape(g, iota(g, along[static_cast<std::size_t>(axis)]), along);
  Value* start = where(g, starts, place, scalar_int(g, DType::i64, 0));
  start = apply(g, "cummax_values", {start}, Axis{axis});
  Value* best = argmax(g, sub(g, place, start), {axis}, true);
  std::vector<Value*> found;
  for (std::size_t k = 0; k < 2; ++k) {
    Value* v = take_along(g, sorted->output(k), best, axis);
    found.push_back(to_result(c, c.flag(2) ? v : squeeze(g, v, axis), k));
  }
  return found;
}

}  // namespace

void register_unique_rows() {
  register_aten_row("aten.mode.default", import_mode);
  register_aten_row("aten._unique2.default", import_unique);
  register_aten_row("aten.unique_dim.default", import_unique_dim);
  register_aten_row("aten.unique_consecutive.default", import_unique_consecutive);
}

}  // namespace gex::ops
