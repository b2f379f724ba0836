// ATen rows of embedding bags: rows of a table, summed, averaged or maximised per bag. A bag is a
// range of the index list; `offsets` has the beginning of each.

#include "ops/rows/embedding.hpp"

#include <limits>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/rows/rows.hpp"
#include "ops/statistics.hpp"

namespace gex::ops {

namespace {

constexpr std::int64_t kBagSum = 0, kBagMean = 1, kBagMax = 2;

// The bag of each index: the number of bags that began up to there, minus one. Bags that begin
// after the last index are empty.
Value* bag_of_index(Graph& g, Value* offsets, Dim indices) {
  Value* starts = cast(g, offsets, DType::i64);
  Value* none = full(g, DType::i64, 0, {indices + 1});
  Value* ones = full(g, DType::i64, 1, starts->type().shape);
  Value* begun = cumsum(g, scatter(g, none, starts, ones, 0, "add"), 0);
  return sub(g, slice(g, begun, 0, 0, indices), dim_value(g, Dim(1)));
}

// True where the index is not padding; null if there is no padding index.
Value* counted(Graph& g, Value* indices, std::int64_t padding) {
  if (padding < 0) return nullptr;
  return ne(g, indices, scalar_int(g, indices->type().dtype, padding));
}

Value* rows_or_zero(Graph& g, Value* rows, Value* mask) {
  if (mask == nullptr) return rows;
  return where(g, unsqueeze(g, mask, -1), rows, scalar(g, rows->type().dtype, 0));
}

Value* counts_of(Graph& g, Value* places, Value* mask, Dim size) {
  Value* ones = mask ? cast(g, mask, DType::i64) : full(g, DType::i64, 1, places->type().shape);
  return index_put(g, full(g, DType::i64, 0, {size}), ones, {places}, {0}, "add");
}

// For each bag and column the position, among the indices, of the first largest element; the number
// of indices if a bag is empty. As in eager a NaN counts only if it is the first of its bag, and
// then it is the largest.
Value* first_largest(Graph& g, Value* rows, Value* bag, Value* mask, Dim bags) {
  const DType t = rows->type().dtype;
  const Dim count = rows->type().shape[0], columns = rows->type().shape[1];
  const double inf = std::numeric_limits<double>::infinity();
  Value* nowhere = dim_value(g, count);
  Value* place = iota(g, count);
  if (mask != nullptr) place = where(g, mask, place, nowhere);
  Value* starts = index_put(g, expand(g, nowhere, {bags}), place, {bag}, {0}, "min");
  Value* is_first = unsqueeze(g, eq(g, place, take(g, starts, bag, 0)), -1);
  Value* nan_key = where(g, is_first, scalar(g, t, inf), scalar(g, t, -inf));
  Value* keys = where(g, is_nan(g, rows), nan_key, rows);
  if (mask != nullptr) keys = where(g, unsqueeze(g, mask, -1), keys, scalar(g, t, -inf));
  Value* largest = index_put(g, full(g, t, -inf, {bags, columns}), keys, {bag}, {0}, "max");
  Value* reaches = eq(g, keys, take(g, largest, bag, 0));
  Value* candidates = where(g, reaches, unsqueeze(g, place, -1), nowhere);
  return index_put(g, expand(g, nowhere, {bags, columns}), candidates, {bag}, {0}, "min");
}

std::vector<Value*> largest_of_bags(AtenCall& c, Value* bag, Value* mask) {
  Graph& g = c.graph();
  Value *weight = c.tensor(0), *indices = c.tensor(1);
  const Dim count = indices->type().shape[0], bags = c.result(0).shape[0];
  Value* first = first_largest(g, take(g, weight, indices, 0), bag, mask, bags);
  Value* some = lt(g, first, dim_value(g, count));
  // Empty bags have the first row's number, as in eager, and zeros.
  Value* rows = take(g, pad(g, cast(g, indices, DType::i64), {Dim(0)}, {Dim(1)}), first, 0);
  Value* values =
      where(g, some, take_along(g, weight, rows, 0), scalar(g, weight->type().dtype, 0));
  return {to_result(c, values, 0), to_result(c, bag, 1),
          to_result(c, counts_of(g, bag, mask, bags), 2), to_result(c, rows, 3)};
}

std::optional<Dim> number_of(const Value* scalar) {
  const Node* node = scalar->producer();
  if (node == nullptr) return std::nullopt;
  if (node->is("dim")) return node->as<OneDim>().size;
  if (!node->is("full")) return std::nullopt;
  return Dim(static_cast<std::int64_t>(node->as<Full>().value));
}

// If the bags are successive ranges of one length that cover all indices, as those of an index
// matrix, that length.
std::optional<Dim> length_of_bags(const Value* offsets, Dim bags, Dim indices) {
  const Node* node = offsets->producer();
  while (node != nullptr && (node->is("cast") || node->is("add"))) {
    if (node->is("add") && number_of(node->input(1)) != Dim(0)) return std::nullopt;
    node = node->input(0)->producer();
  }
  if (node == nullptr || !node->is("mul")) return std::nullopt;
  const Node* counts = node->input(0)->producer();
  const std::optional<Dim> length = number_of(node->input(1));
  const bool covers = length && provably_eq(*length * bags, indices) && length->range().lo > 0;
  return covers && counts != nullptr && counts->is("iota") ? length : std::nullopt;
}

// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
// include_last_offset, padding_idx -> result, bag of each index, bag sizes, maxima's places
std::vector<Value*> import_embedding_bag(AtenCall& c) {
  Graph& g = c.graph();
  const std::int64_t mode = c.integer(4);
  Value *weight = c.tensor(0), *indices = c.tensor(1), *offsets = c.tensor(2);
  if (indices->type().rank() != 1) return {};
  const Dim count = indices->type().shape[0], bags = c.result(0).shape[0];
  const DType t = compute_type(c.result(0).dtype);
  Value* bag = bag_of_index(g, slice(g, offsets, 0, 0, bags), count);
  Value* mask = counted(g, indices, c.integer(8));
  if (mode == kBagMax) return largest_of_bags(c, bag, mask);
  Value* rows = rows_or_zero(g, cast(g, take(g, weight, indices, 0), t), mask);
  if (!c.none(6)) rows = mul(g, rows, cast(g, unsqueeze(g, c.tensor(6), -1), t));
  const std::optional<Dim> length = length_of_bags(offsets, bags, count);
  Value* sums = length ? reduce_sum(g, reshape(g, rows, {bags, *length, c.result(0).shape[1]}), {1})
                       : index_put(g, full(g, t, 0, c.result(0).shape), rows, {bag}, {0}, "add");
  Value* sizes = length && mask == nullptr ? expand(g, dim_value(g, *length), {bags})
                                           : counts_of(g, bag, mask, bags);
  if (mode == kBagMean) {
    Value* divisor = cast(g, maximum(g, sizes, dim_value(g, Dim(1))), t);
    sums = div(g, sums, unsqueeze(g, divisor, -1));
  }
  const auto or_nothing = [&](Value* v,
                              std::size_t k) {  // eager omits results that it does not need
    if (c.result(k).shape == v->type().shape) return to_result(c, v, k);
    return full(g, c.result(k).dtype, 0, c.result(k).shape);
  };
  return {to_result(c, sums, 0), or_nothing(bag, 1), or_nothing(sizes, 2),
          full(g, c.result(3).dtype, 0, c.result(3).shape)};
}

// Inputs of the gradient with respect to the table; absent ones are null. Gradients divided by
// frequencies are left to eager: it takes some frequencies from the wrong index.
struct BagGradient {
  Value *grad, *indices, *bag, *sizes, *places, *weights;
  std::int64_t mode, padding;
};

// Each bag passes its gradient, column by column, to the row that was largest.
Value* gradient_of_largest(Graph& g, const BagGradient& b, Value* zeros) {
  Value* some = gt(g, b.sizes, dim_value(g, Dim(0)));
  return scatter(g, zeros, b.places, rows_or_zero(g, b.grad, some), 0, "add");
}

std::vector<Value*> table_gradient(AtenCall& c, BagGradient b) {
  Graph& g = c.graph();
  const DType t = compute_type(c.result().dtype);
  Value* zeros = full(g, t, 0, c.result().shape);
  b.grad = cast(g, b.grad, t);
  if (b.mode == kBagMax) return one(to_result(c, gradient_of_largest(g, b, zeros)));
  Value* rows = take(g, b.grad, b.bag, 0);
  if (b.mode == kBagMean) {
    Value* sizes = cast(g, take(g, b.sizes, b.bag, 0), t);
    rows = div(g, rows, unsqueeze(g, maximum(g, sizes, scalar(g, t, 1)), -1));
  }
  if (b.weights != nullptr) rows = mul(g, rows, cast(g, unsqueeze(g, b.weights, -1), t));
  rows = rows_or_zero(g, rows, counted(g, b.indices, b.padding));
  return one(to_result(c, index_put(g, zeros, rows, {b.indices}, {0}, "add")));
}

// Bags from the forward pass, or recomputed if it omitted them. `offsets` may be null.
Value* known_bags(Graph& g, Value* bags, Value* offsets, Value* indices) {
  const Dim count = indices->type().numel();
  if (provably_eq(count, bags->type().numel())) return bags;
  return offsets == nullptr ? nullptr : bag_of_index(g, offsets, count);
}

// grad, indices, bag of each index, bag sizes, maxima's places, rows of the table,
// scale_grad_by_freq, mode, per_sample_weights, padding_idx
std::vector<Value*> import_embedding_bag_dense_backward(AtenCall& c) {
  Value* bag = known_bags(c.graph(), c.tensor(2), nullptr, c.tensor(1));
  if (bag == nullptr || c.flag(6)) return {};
  return table_gradient(c, {c.tensor(0), c.tensor(1), bag, c.tensor(3), c.tensor(4),
                            c.none(8) ? nullptr : c.tensor(8), c.integer(7), c.integer(9)});
}

// grad, indices, offsets, bag of each index, bag sizes, maxima's places, rows of the table,
// scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx
std::vector<Value*> import_embedding_bag_backward(AtenCall& c) {
  if (c.flag(7) || c.flag(9)) return {};
  Value* bag = known_bags(c.graph(), c.tensor(3), c.tensor(2), c.tensor(1));
  return table_gradient(c, {c.tensor(0), c.tensor(1), bag, c.tensor(4), c.tensor(5),
                            c.none(10) ? nullptr : c.tensor(10), c.integer(8), c.integer(11)});
}

// grad, table, indices, offsets, bag of each index, mode, padding_idx: the products of the rows
// with the gradients of their bags.
std::vector<Value*> import_sample_weights_backward(AtenCall& c) {
  Graph& g = c.graph();
  const DType t = compute_type(c.result().dtype);
  Value* indices = c.tensor(2);
  Value* bag = known_bags(g, c.tensor(4), c.tensor(3), indices);
  Value* products = mul(g, cast(g, take(g, c.tensor(0), bag, 0), t),
                        cast(g, take(g, c.tensor(1), indices, 0), t));
  products = rows_or_zero(g, products, counted(g, indices, c.integer(6)));
  return one(to_result(c, reduce_sum(g, products, {1})));
}

}  // namespace

void register_embedding_rows() {
  for (const char* overload :
       {"aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"})
    register_aten_row(overload, import_embedding_bag);
  register_aten_facts(
      {"aten._embedding_bag", "aten._embedding_bag_forward_only"},
      {.indices = AtenFacts::Indices::rows, .values = AtenFacts::Values::bag_starts});
  register_aten_row("aten._embedding_bag_dense_backward.default",
                    import_embedding_bag_dense_backward);
  register_aten_row("aten._embedding_bag_backward.default", import_embedding_bag_backward);
  register_aten_row("aten._embedding_bag_per_sample_weights_backward.default",
                    import_sample_weights_backward);
}

}  // namespace gex::ops
