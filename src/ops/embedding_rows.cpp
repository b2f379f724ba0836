// ATen spellings of bags of embeddings: rows of a table, summed or averaged bag by bag. A bag is a
// run of the list of indices; `offsets` says where each begins.

#include "ops/embedding_rows.hpp"

#include "ops/build.hpp"
#include "ops/define.hpp"
#include "ops/rows.hpp"
#include "ops/statistics.hpp"

namespace gex::ops {

namespace {

constexpr std::int64_t kSum = 0, kMean = 1;

// The bag of each index: how many bags began up to there, less one. Those that begin behind the
// last index are empty and count for none.
Value* bag_of_index(Graph& g, Value* offsets, Dim indices) {
  Value* starts = cast(g, offsets, DType::i64);
  Value* none = full(g, DType::i64, 0, {indices + 1});
  Value* ones = full(g, DType::i64, 1, starts->type().shape);
  Value* begun = cumsum(g, scatter(g, none, starts, ones, 0, "add"), 0);
  return sub(g, slice(g, begun, 0, 0, indices), dim_value(g, Dim(1)));
}

// True where the index is no padding; null if nothing is.
Value* counted(Graph& g, Value* indices, std::int64_t padding) {
  if (padding < 0) return nullptr;
  return ne(g, indices, scalar_int(g, indices->type().dtype, padding));
}

Value* rows_or_zero(Graph& g, Value* rows, Value* mask) {
  if (mask == nullptr) return rows;
  return where(g, unsqueeze(g, mask, -1), rows, scalar(g, rows->type().dtype, 0));
}

// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
// include_last_offset, padding_idx -> result, bag of each index, bag sizes, maxima's places
std::vector<Value*> import_embedding_bag(AtenCall& c) {
  Graph& g = c.graph();
  const std::int64_t mode = c.integer(4);
  Value *weight = c.tensor(0), *indices = c.tensor(1), *offsets = c.tensor(2);
  if ((mode != kSum && mode != kMean) || indices->type().rank() != 1) return {};
  const Dim count = indices->type().shape[0], bags = c.result(0).shape[0];
  const DType t = compute_type(c.result(0).dtype);
  Value* bag = bag_of_index(g, slice(g, offsets, 0, 0, bags), count);
  Value* mask = counted(g, indices, c.integer(8));
  Value* rows = rows_or_zero(g, cast(g, take(g, weight, indices, 0), t), mask);
  if (!c.none(6)) rows = mul(g, rows, cast(g, unsqueeze(g, c.tensor(6), -1), t));
  Value* sums = index_put(g, full(g, t, 0, c.result(0).shape), rows, {bag}, {0}, "add");
  Value* ones = mask ? cast(g, mask, DType::i64) : full(g, DType::i64, 1, {count});
  Value* sizes = index_put(g, full(g, DType::i64, 0, {bags}), ones, {bag}, {0}, "add");
  if (mode == kMean) {
    Value* divisor = cast(g, maximum(g, sizes, dim_value(g, Dim(1))), t);
    sums = div(g, sums, unsqueeze(g, divisor, -1));
  }
  const auto or_nothing = [&](Value* v, std::size_t k) {  // eager leaves out what it does not need
    if (c.result(k).shape == v->type().shape) return to_result(c, v, k);
    return full(g, c.result(k).dtype, 0, c.result(k).shape);
  };
  return {to_result(c, sums, 0), or_nothing(bag, 1), or_nothing(sizes, 2),
          full(g, c.result(3).dtype, 0, c.result(3).shape)};
}

// grad, indices, bag of each index, bag sizes, maxima's places, rows of the table,
// scale_grad_by_freq, mode, per_sample_weights, padding_idx
std::vector<Value*> import_embedding_bag_backward(AtenCall& c) {
  Graph& g = c.graph();
  Value *indices = c.tensor(1), *bag = c.tensor(2);
  const std::int64_t mode = c.integer(7);
  const bool known = provably_eq(indices->type().numel(), bag->type().numel());
  if ((mode != kSum && mode != kMean) || c.flag(6) || !known) return {};
  const DType t = compute_type(c.result().dtype);
  Value* rows = take(g, cast(g, c.tensor(0), t), bag, 0);
  if (mode == kMean) {
    Value* sizes = cast(g, take(g, c.tensor(3), bag, 0), t);
    rows = div(g, rows, unsqueeze(g, maximum(g, sizes, scalar(g, t, 1)), -1));
  }
  if (!c.none(8)) rows = mul(g, rows, cast(g, unsqueeze(g, c.tensor(8), -1), t));
  rows = rows_or_zero(g, rows, counted(g, indices, c.integer(9)));
  return one(
      to_result(c, index_put(g, full(g, t, 0, c.result().shape), rows, {indices}, {0}, "add")));
}

}  // namespace

void register_embedding_rows() {
  for (const char* overload :
       {"aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"})
    register_aten_row(overload, import_embedding_bag);
  register_aten_row("aten._embedding_bag_dense_backward.default", import_embedding_bag_backward);
}

}  // namespace gex::ops
