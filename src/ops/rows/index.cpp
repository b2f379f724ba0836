// ATen rows of gathers and scatters.

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/fold.hpp"
#include "ops/rows/embedding.hpp"
#include "ops/rows/nonzero.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

struct IndexList {
  std::vector<Value*> tensors;
  Ints axes;
};

// The present index tensors and the axes they address; nothing for masks, whose result has a
// data-dependent size.
std::optional<IndexList> index_list(const AtenCall& c, std::size_t i) {
  IndexList list;
  std::int64_t axis = 0;
  for (Value* v : c.tensors(i)) {
    if (v != nullptr) {
      if (!is_int(v->type().dtype) || v->type().dtype == DType::u8) return std::nullopt;
      list.tensors.push_back(v);
      list.axes.push_back(axis);
    }
    ++axis;
  }
  return list;
}

// x[mask], with nothing else in the brackets.
std::vector<Value*> import_mask(AtenCall& c) {
  const auto masks = c.tensors(1);
  if (masks.size() != 1 || masks[0] == nullptr || masks[0]->type().dtype != DType::boolean)
    return {};
  Value* rows = selected_by_mask(c, c.tensor(0), masks[0]);
  return rows == nullptr ? std::vector<Value*>{} : one(rows);
}

std::vector<Value*> import_index(AtenCall& c) {
  const auto list = index_list(c, 1);
  if (!list) return import_mask(c);
  if (list->tensors.empty()) return one(c.tensor(0));
  return one(index(c.graph(), c.tensor(0), list->tensors, list->axes));
}

// x[mask] = value with one value is a where; with several it depends on the count of trues.
std::vector<Value*> put_by_mask(AtenCall& c) {
  Graph& g = c.graph();
  Value *x = c.tensor(0), *values = c.tensor(2);
  const auto masks = c.tensors(1);
  if (masks.size() != 1 || masks[0] == nullptr || masks[0]->type().dtype != DType::boolean ||
      !provably_eq(values->type().numel(), 1)) {
    return {};
  }
  Shape shape = masks[0]->type().shape;
  shape.resize(x->type().shape.size(), Dim(1));
  Value* value = reshape(g, cast(g, values, x->type().dtype), {});
  if (c.flag(3)) value = add(g, x, value);
  return one(where(g, reshape(g, masks[0], shape), value, x));
}

std::vector<Value*> import_index_put(AtenCall& c) {
  const auto list = index_list(c, 1);
  if (!list) return put_by_mask(c);
  if (list->tensors.empty()) return {};
  Value* values = tensor_as(c, 2, c.result().dtype);
  const bool accumulate = c.size() > 3 && !c.none(3) && c.flag(3);
  if (accumulate && c.result().dtype == DType::boolean) return {};
  return one(index_put(c.graph(), c.tensor(0), values, list->tensors, list->axes,
                       accumulate ? "add" : "set"));
}

// Eager treats 0-d tensors along an axis as 1-d ones.
Value* as_vector(Graph& g, Value* x) { return x->type().rank() == 0 ? reshape(g, x, {Dim(1)}) : x; }

std::vector<Value*> shaped_as_promised(AtenCall& c, Value* x) {
  return one(reshape(c.graph(), x, c.result().shape));
}

std::vector<Value*> import_index_select(AtenCall& c) {  // x, dim, index
  Value* x = as_vector(c.graph(), c.tensor(0));
  return shaped_as_promised(c, take(c.graph(), x, c.tensor(2), c.integer(1)));
}

// Positions among all elements of x, in their order.
std::vector<Value*> import_take(AtenCall& c) {  // x, index
  Graph& g = c.graph();
  Value* elements = reshape(g, c.tensor(0), {c.tensor(0)->type().numel()});
  return one(take(g, elements, c.tensor(1), 0));
}

std::vector<Value*> import_put(AtenCall& c) {  // x, index, source, accumulate
  Graph& g = c.graph();
  Value *x = c.tensor(0), *indices = c.tensor(1);
  const bool accumulate = c.size() > 3 && !c.none(3) && c.flag(3);
  if (accumulate && c.result().dtype == DType::boolean) return {};
  Value* elements = reshape(g, x, {x->type().numel()});
  Value* source = reshape(g, tensor_as(c, 2, c.result().dtype), indices->type().shape);
  return shaped_as_promised(
      c, index_put(g, elements, source, {indices}, {0}, accumulate ? "add" : "set"));
}

std::vector<Value*> import_gather(AtenCall& c) {  // x, dim, index
  Graph& g = c.graph();
  Value *x = as_vector(g, c.tensor(0)), *indices = as_vector(g, c.tensor(2));
  return shaped_as_promised(c, take_along(g, x, indices, c.integer(1)));
}

std::vector<Value*> import_scatter(AtenCall& c, const char* mode) {  // x, dim, index, src
  Graph& g = c.graph();
  const DType t = c.result().dtype;
  if (t == DType::boolean && std::string(mode) != "set") return {};
  Value *x = as_vector(g, c.tensor(0)), *indices = as_vector(g, c.tensor(2));
  return shaped_as_promised(c, scatter(g, x, indices, operand(c, 3, t), c.integer(1), mode));
}

// How several values at one index are combined.
struct Folding {
  const char* mode;
  double identity;
  bool mean;
};

std::optional<Folding> folding(const std::string& how, DType dtype) {
  if (how == "sum" || how == "add") return Folding{"add", 0, false};
  if (how == "prod" || how == "multiply") return Folding{"mul", 1, false};
  if (how == "amax") return Folding{"max", lowest(dtype), false};
  if (how == "amin") return Folding{"min", highest(dtype), false};
  if (how == "mean") return Folding{"add", 0, true};
  return std::nullopt;
}

// A number of a dtype; exact for the limits of integer ranges.
Value* extreme(Graph& g, DType t, double value) {
  return is_float(t) ? scalar(g, t, value) : scalar_int(g, t, accumulator("", t, value).init_int);
}

// `put` writes a source (0-d: broadcast) into a base by a mode.
template <class Put>
Value* fold_into(Graph& g, Value* x, Value* source, const Folding& f, bool include_self,
                 const Put& put) {
  const DType t = x->type().dtype;
  Value* base = x;
  if (!include_self) {
    Value* touched = put(full(g, DType::i8, 0, x->type().shape), scalar(g, DType::i8, 1), "set");
    base = where(g, cast(g, touched, DType::boolean), extreme(g, t, f.identity), x);
  }
  Value* folded = put(base, source, f.mode);
  if (!f.mean) return folded;
  Value* count = full(g, t, include_self ? 1 : 0, x->type().shape);
  count = maximum(g, put(count, scalar(g, t, 1), "add"), scalar(g, t, 1));
  return is_float(t) ? div(g, folded, count) : floor_div(g, folded, count);
}

std::vector<Value*> import_scatter_reduce(AtenCall& c) {  // x, dim, index, src, reduce, self
  Graph& g = c.graph();
  const DType t = c.result().dtype;
  const auto how = folding(c.string(4), t);
  if (!how || t == DType::boolean) return {};
  Value *x = as_vector(g, c.tensor(0)), *indices = as_vector(g, c.tensor(2));
  auto put = [&](Value* base, Value* source, const char* mode) {
    return scatter(g, base, indices, source, c.integer(1), mode);
  };
  const bool include_self = c.size() <= 5 || c.flag(5);
  Value* source = operand(c, 3, t);
  return shaped_as_promised(c, fold_into(g, x, source, *how, include_self, put));
}

std::vector<Value*> import_index_reduce(AtenCall& c) {  // x, dim, index, source, reduce, self
  Graph& g = c.graph();
  const DType t = c.result().dtype;
  const auto how = folding(c.string(4), t);
  if (!how || t == DType::boolean) return {};
  Value *x = as_vector(g, c.tensor(0)), *indices = as_vector(g, c.tensor(2));
  const std::int64_t axis = normal_axis(c.integer(1), x->type().rank());
  auto put = [&](Value* base, Value* source, const char* mode) {
    return index_put(g, base, source, {indices}, {axis}, mode);
  };
  Value* source = as_vector(g, tensor_as(c, 3, t));
  return shaped_as_promised(c, fold_into(g, x, source, *how, c.flag(5), put));
}

// Which element each of output_size results repeats: the number of elements that end at or before
// it.
std::vector<Value*> import_repeat_counts(AtenCall& c) {  // repeats, output_size
  Graph& g = c.graph();
  if (c.none(1)) return {};  // as many as the repeats add up to
  Value* repeats = cast(g, c.tensor(0), DType::i64);
  c.expect_size(reduce_sum(g, repeats, {0}), c.result().shape[0]);
  Value* ends = cumsum(g, repeats, 0);
  Value* marks = full(g, DType::i64, 0, c.result().shape);
  marks = index_put(g, marks, scalar_int(g, DType::i64, 1), {ends}, {0}, "add");
  return one(to_result(c, cumsum(g, marks, 0)));
}

// How many elements of a sorted sequence come before a value. All are compared, so it must be
// short.
Value* count_before(Graph& g, Value* sequence, Value* x, bool right) {
  Value* before = bit_not(g, apply(g, right ? "gt" : "ge", {sequence, x}));
  return reduce_sum(g, before, {-1});
}

std::vector<Value*> count_in_sequence(AtenCall& c, Value* sequence, Value* x, bool right) {
  constexpr std::int64_t kLongest = 1024;
  Graph& g = c.graph();
  const auto size = sequence->type().shape.back().as_const();
  const DType t = promote(sequence->type().dtype, x->type().dtype);
  if (!size || *size > kLongest || t == DType::boolean) return {};
  sequence = cast(g, sequence, t);
  if (sequence->type().rank() > 1) sequence = unsqueeze(g, sequence, -2);
  Value* each = unsqueeze(g, cast(g, x, t), x->type().rank());
  return one(to_result(c, count_before(g, sequence, each, right)));
}

std::vector<Value*> import_bucketize(AtenCall& c) {  // x, boundaries, out_int32, right
  return count_in_sequence(c, c.tensor(1), c.tensor(0), c.flag(3));
}

// sequence, x, out_int32, right, side, sorter
std::vector<Value*> import_searchsorted(AtenCall& c) {
  if (!c.none(5)) return {};
  const bool right = c.flag(3) || (!c.none(4) && c.string(4) == "right");
  return count_in_sequence(c, c.tensor(0), c.tensor(1), right);
}

std::vector<Value*> import_index_copy(AtenCall& c) {  // x, dim, index, source
  Graph& g = c.graph();
  Value *x = as_vector(g, c.tensor(0)), *source = as_vector(g, c.tensor(3));
  const std::int64_t axis = normal_axis(c.integer(1), x->type().rank());
  return shaped_as_promised(c, index_put(g, x, source, {as_vector(g, c.tensor(2))}, {axis}));
}

std::vector<Value*> import_index_add(AtenCall& c) {  // x, dim, index, source, alpha
  Graph& g = c.graph();
  if (c.result().dtype == DType::boolean) return {};
  Value* x = as_vector(g, c.tensor(0));
  Value* source = as_vector(g, tensor_as(c, 3, c.result().dtype));
  if (!(c.is_constant_number(4) && c.number(4) == 1)) {
    source = mul(g, source, operand(c, 4, c.result().dtype));
  }
  const std::int64_t axis = normal_axis(c.integer(1), x->type().rank());
  Value* indices = as_vector(g, c.tensor(2));
  return shaped_as_promised(c, index_put(g, x, source, {indices}, {axis}, "add"));
}

std::vector<Value*> import_index_fill(AtenCall& c) {  // x, dim, index, value
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  if (x->type().rank() == 0) return {};
  const std::int64_t axis = normal_axis(c.integer(1), x->type().rank());
  return one(index_put(g, x, operand(c, 3, c.result().dtype), {as_vector(g, c.tensor(2))}, {axis}));
}

std::vector<Value*> import_embedding_backward(AtenCall& c) {
  // grad, indices, num_weights, padding_idx, scale_grad_by_freq
  Graph& g = c.graph();
  if (c.flag(4)) return {};
  Value *grad = c.tensor(0), *indices = c.tensor(1);
  if (c.integer(3) >= 0) {
    Value* padding = eq(g, indices, scalar_int(g, indices->type().dtype, c.integer(3)));
    Value* zero = scalar(g, grad->type().dtype, 0);
    grad = where(g, unsqueeze(g, padding, -1), zero, grad);
  }
  Value* zeros = full(g, c.result().dtype, 0, c.result().shape);
  return one(index_put(g, zeros, cast(g, grad, c.result().dtype), {indices}, {0}, "add"));
}

// The k-th true element of the mask takes the k-th element of the source.
std::vector<Value*> import_masked_scatter(AtenCall& c) {  // x, mask, source
  Graph& g = c.graph();
  const Shape& shape = c.result().shape;
  Dim count = c.tensor(2)->type().numel();
  Value* source = reshape(g, c.tensor(2), {count});
  if (known_lt(Dim(0), count) !=
      true) {  // there must be an element to read, even if it is not used
    source = pad(g, source, {Dim(0)}, {Dim(1)});
    count = count + Dim(1);
  }
  const Dim elements = c.result().numel();
  Value* x = reshape(g, expand(g, c.tensor(0), shape), {elements});
  Value* mask = reshape(g, expand(g, c.tensor(1), shape), {elements});
  Value* place = sub(g, cumsum(g, cast(g, mask, DType::i64), 0), dim_value(g, Dim(1)));
  // Eager rejects a source that is too short; the tracer can't know.
  place = minimum(g, maximum(g, place, dim_value(g, Dim(0))), dim_value(g, count - Dim(1)));
  Value* picked = take(g, source, place, 0);
  return one(reshape(g, where(g, mask, picked, x), shape));
}

// Counts in equal bins from `low` to `high`, included in the last one; other elements are ignored.
std::vector<Value*> import_histc(AtenCall& c) {  // x, bins, min, max
  Graph& g = c.graph();
  const DType t = c.result().dtype;
  const bool wide_enough = t == DType::f32 || t == DType::f64;  // eager counts in x's own dtype
  if (!wide_enough || !c.is_constant_number(2) || !c.is_constant_number(3)) return {};
  const double low = c.number(2), high = c.number(3);
  if (!(low < high)) return {};  // the range is then that of the data
  const std::int64_t bins = c.integer(1);
  Value* x = reshape(g, c.tensor(0), {c.tensor(0)->type().numel()});
  Value* inside = bit_and(g, ge(g, x, scalar(g, t, low)), le(g, x, scalar(g, t, high)));
  Value* known = where(g, inside, x, scalar(g, t, low));
  Value* place = div(g, mul(g, sub(g, known, low), static_cast<double>(bins)), high - low);
  Value* last = scalar_int(g, DType::i64, bins - 1);
  Value* bin = minimum(g, cast(g, place, DType::i64), last);
  return one(index_put(g, full(g, t, 0, {Dim(bins)}), cast(g, inside, t), {bin}, {0}, "add"));
}

}  // namespace

void register_index_rows() {
  register_embedding_rows();
  register_nonzero_rows();
  register_aten_row("aten.histc.default", import_histc);
  register_aten_row("aten.masked_scatter.default", import_masked_scatter);
  register_aten_row("aten.index.Tensor", import_index);
  register_aten_row("aten._unsafe_index.Tensor", import_index);
  register_aten_row("aten.index_put.default", import_index_put);
  register_aten_row("aten._unsafe_index_put.default", import_index_put);
  register_aten_row("aten.index_select.default", import_index_select);
  register_aten_row("aten.embedding.default",
                    [](AtenCall& c) { return one(take(c.graph(), c.tensor(0), c.tensor(1), 0)); });
  register_aten_row("aten.embedding_dense_backward.default", import_embedding_backward);
  register_aten_row("aten.take.default", import_take);
  register_aten_row("aten.put.default", import_put);
  register_aten_row("aten.gather.default", import_gather);
  register_aten_row("aten.gather_backward.default", [](AtenCall& c) {  // grad, self, dim, index
    if (c.tensor(1)->type().rank() == 0) return std::vector<Value*>{};
    Value* zeros = full(c.graph(), c.result().dtype, 0, c.result().shape);
    return one(scatter(c.graph(), zeros, c.tensor(3), c.tensor(0), c.integer(2), "add"));
  });
  register_aten_row("aten.scatter.src", [](AtenCall& c) { return import_scatter(c, "set"); });
  register_aten_row("aten.scatter.value", [](AtenCall& c) { return import_scatter(c, "set"); });
  register_aten_row("aten.scatter_add.default",
                    [](AtenCall& c) { return import_scatter(c, "add"); });
  register_aten_row("aten.scatter.reduce", import_scatter_reduce);
  register_aten_row("aten.scatter.value_reduce", import_scatter_reduce);
  register_aten_row("aten.scatter_reduce.two", import_scatter_reduce);
  register_aten_row("aten.index_reduce.default", import_index_reduce);
  register_aten_row("aten.repeat_interleave.Tensor", import_repeat_counts);
  register_aten_row("aten.bucketize.Tensor", import_bucketize);
  register_aten_row("aten.searchsorted.Tensor", import_searchsorted);
  register_aten_row("aten.index_copy.default", import_index_copy);
  register_aten_row("aten.index_add.default", import_index_add);
  register_aten_row("aten.index_fill.int_Scalar", import_index_fill);
  register_aten_row("aten.index_fill.int_Tensor", import_index_fill);
  register_aten_facts({"aten.embedding"}, {.indices = AtenFacts::Indices::rows,
                                           .padding = AtenFacts::Padding::keeps_positions});
  register_aten_facts({"aten.index", "aten.index_put"}, {.indices = AtenFacts::Indices::each_axis});
  register_aten_facts({"aten.masked_scatter"}, {.values = AtenFacts::Values::few_trues});
  register_aten_facts({"aten.max_unpool2d", "aten.max_unpool3d"},
                      {.indices = AtenFacts::Indices::cells});
  register_aten_facts({"aten.put", "aten.take"}, {.indices = AtenFacts::Indices::each_element});
  register_aten_facts({"aten.index_fill"}, {.indices = AtenFacts::Indices::along_axis_from_ends});
  register_aten_facts(
      {"aten.gather", "aten.index_add", "aten.index_copy", "aten.index_reduce", "aten.index_select",
       "aten.scatter", "aten.scatter_add", "aten.scatter_reduce"},
      {.indices = AtenFacts::Indices::along_axis});
}

}  // namespace gex::ops
