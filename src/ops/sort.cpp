// Sorting along an axis. The expansions define it: an element's position is the number of elements
// that go before it. The problem's kernels sort.

#include "ops/sort.hpp"
#include <limits>
#include <utility>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/core/samples.hpp"
#include "ops/problem_rules.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

void require_sort_axis(const InferContext& c, std::int64_t axis) {
  if (axis < 0 || axis >= c.in(0).rank()) {
    fail(ErrorCode::invalid_argument, c.op_name, ": axis ", axis, " is out of range for ", c.in(0),
         "; a 0-d tensor can't be sorted");
  }
}

// Strictly before, NaN counting as larger than every number.
Value* goes_before(Graph& g, Value* a, Value* b, bool descending) {
  if (descending) std::swap(a, b);
  Value* before = lt(g, a, b);
  if (!is_float(a->type().dtype)) return before;
  return bit_or(g, before, bit_and(g, is_nan(g, b), bit_not(g, is_nan(g, a))));
}

Value* equal_rank(Graph& g, Value* a, Value* b) {
  Value* same = eq(g, a, b);
  if (!is_float(a->type().dtype)) return same;
  return bit_or(g, same, bit_and(g, is_nan(g, a), is_nan(g, b)));
}

// 0, 1, ... along an axis of a tensor with `rank` axes.
Value* positions(Graph& g, Dim size, std::int64_t axis, std::size_t rank) {
  Shape shape(rank, Dim(1));
  shape[static_cast<std::size_t>(axis)] = size;
  return reshape(g, iota(g, size), shape);
}

std::vector<Value*> expand_sort(Graph& g, const Node& n) {
  const auto a = n.as<Sort>();
  Value* x = n.input(0);
  const Shape shape = x->type().shape;
  const Dim size = shape[static_cast<std::size_t>(a.axis)];
  Value* keys = x->type().dtype == DType::boolean ? cast(g, x, DType::u8) : x;
  // Axis `axis` runs over the others, axis+1 over the element itself.
  Value *other = unsqueeze(g, keys, a.axis + 1), *self = unsqueeze(g, keys, a.axis);
  Value* earlier = lt(g, positions(g, size, a.axis, shape.size() + 1),
                      positions(g, size, a.axis + 1, shape.size() + 1));
  Value* before = bit_or(g, goes_before(g, other, self, a.descending),
                         bit_and(g, equal_rank(g, other, self), earlier));
  Value* place = reduce_sum(g, before, {a.axis});
  Value* own = expand(g, positions(g, size, a.axis, shape.size()), shape);
  Value* indices = scatter(g, full(g, DType::i64, 0, shape), place, own, a.axis);
  if (size == Dim(0)) return {x, indices};
  return {take_along(g, x, indices, a.axis), indices};
}

std::vector<Value*> expand_topk(Graph& g, const Node& n) {
  const auto a = n.as<TopK>();
  Node* sorted = g.add(op("sort"), {n.input(0)}, Sort{a.axis, a.largest});
  return {slice(g, sorted->output(0), a.axis, 0, a.k), slice(g, sorted->output(1), a.axis, 0, a.k)};
}

// --- rows -------------------------------------------------------------------------------------

// Eager treats a 0-d tensor as one element of an axis.
Value* with_axis(Graph& g, Value* x) { return x->type().rank() == 0 ? reshape(g, x, {Dim(1)}) : x; }

std::vector<Value*> shaped(AtenCall& c, std::vector<Value*> values) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = reshape(c.graph(), values[k], c.result(k).shape);
  }
  return values;
}

std::vector<Value*> sorted(AtenCall& c, std::int64_t axis, bool descending) {
  Value* x = with_axis(c.graph(), c.tensor(0));
  Node* n = c.graph().add(op("sort"), {x}, Sort{normal_axis(axis, x->type().rank()), descending});
  return shaped(c, {n->output(0), n->output(1)});
}

// Routers of experts compare rounded numbers, so equal ones are common: eager's selection matters.
std::vector<Value*> import_topk(AtenCall& c) {  // x, k, dim, largest, sorted
  Value* x = with_axis(c.graph(), c.tensor(0));
  const std::int64_t axis = normal_axis(c.integer(2), x->type().rank());
  Node* n = c.graph().add(op("topk"), {x}, TopK{c.dim(1), axis, c.flag(3), false});
  return shaped(c, {n->output(0), n->output(1)});
}

// The element at a position of the sorted axis, and its index. `kth`: of equal elements that of
// eager's kthvalue.
std::vector<Value*> pick(AtenCall& c, Value* x, std::int64_t axis, Dim place, bool keepdim,
                         bool kth = false) {
  Graph& g = c.graph();
  Node* n = g.add(op("topk"), {x}, TopK{place + 1, axis, false, true, kth});
  std::vector<Value*> picked;
  for (std::size_t k = 0; k < 2; ++k) {
    Value* v = slice(g, n->output(k), axis, place, 1);
    picked.push_back(keepdim ? v : squeeze(g, v, axis));
  }
  return picked;
}

std::vector<Value*> import_kthvalue(AtenCall& c) {  // x, k, dim, keepdim
  Value* x = with_axis(c.graph(), c.tensor(0));
  const std::int64_t axis = normal_axis(c.integer(2), x->type().rank());
  return shaped(c, pick(c, x, axis, c.dim(1) - 1, c.flag(3), true));
}

// The lower of two middle elements; NaN if there is one, then the first of them.
std::vector<Value*> median(AtenCall& c, Value* x, std::int64_t axis, bool keepdim) {
  Graph& g = c.graph();
  const Dim size = x->type().shape[static_cast<std::size_t>(axis)];
  if (known_lt(Dim(0), size) != true) return {};
  std::vector<Value*> middle = pick(c, x, axis, floordiv(size - 1, 2), keepdim);
  if (!is_float(x->type().dtype)) return middle;
  Value* nan = is_nan(g, x);
  Value* any = reduce(g, "reduce_any", nan, {axis}, keepdim);
  Value* first = argmax(g, cast(g, nan, DType::u8), {axis}, keepdim);
  Value* value = scalar(g, x->type().dtype, std::numeric_limits<double>::quiet_NaN());
  return {where(g, any, value, middle[0]), where(g, any, first, middle[1])};
}

// The same without NaNs, which are sorted after all numbers; NaN if there is nothing else.
std::vector<Value*> nanmedian(AtenCall& c, Value* x, std::int64_t axis, bool keepdim) {
  if (!is_float(x->type().dtype)) return median(c, x, axis, keepdim);
  Graph& g = c.graph();
  if (known_lt(Dim(0), x->type().shape[static_cast<std::size_t>(axis)]) != true) return {};
  Node* n = g.add(op("sort"), {x}, Sort{axis, false});
  Value* is_number = bit_not(g, is_nan(g, x));
  Value* numbers = reduce_sum(g, cast(g, is_number, DType::i64), {axis}, true);
  Value* nothing = scalar_int(g, DType::i64, 0);
  Value* last = sub(g, numbers, scalar_int(g, DType::i64, 1));
  Value* place = maximum(g, floor_div(g, last, scalar_int(g, DType::i64, 2)), nothing);
  std::vector<Value*> picked;
  for (std::size_t k = 0; k < 2; ++k) {
    Value* v = take_along(g, n->output(k), place, axis);
    picked.push_back(keepdim ? v : squeeze(g, v, axis));
  }
  return picked;
}

using Middle = std::vector<Value*> (*)(AtenCall&, Value*, std::int64_t, bool);

AtenImport import_middle_of_axis(Middle middle) {  // x, dim, keepdim
  return [middle](AtenCall& c) {
    Value* x = with_axis(c.graph(), c.tensor(0));
    auto found = middle(c, x, normal_axis(c.integer(1), x->type().rank()), c.flag(2));
    return found.empty() ? found : shaped(c, found);
  };
}

AtenImport import_middle(Middle middle) {
  return [middle](AtenCall& c) {
    Value* x = reshape(c.graph(), c.tensor(0), {c.tensor(0)->type().numel()});
    const auto found = middle(c, x, 0, false);
    return found.empty() ? found : one(found[0]);
  };
}

}  // namespace

void register_sort() {
  Definition("sort",
             "x in order along an axis, and where each element was. Equal elements keep their "
             "order if stable; NaN is larger than every number.")
      .in({"x"})
      .out({"values", "indices"})
      .attrs<Sort>()
      .traits(Trait::pure)
      .infer([](const InferContext& c) {
        require_sort_axis(c, c.as<Sort>().axis);
        return std::vector{Type::tensor(c.in(0).dtype, c.in(0).shape),
                           Type::tensor(DType::i64, c.in(0).shape)};
      })
      .expand(expand_sort)
      .problem(sort_rule())
      .reference(sort_reference)
      .aten("aten.sort.default",  // x, dim, descending
            [](AtenCall& c) { return sorted(c, c.integer(1), c.flag(2)); })
      .aten("aten.sort.stable",  // x, stable, dim, descending
            [](AtenCall& c) { return sorted(c, c.integer(2), c.flag(3)); })
      .sample(matrix_sample({{"axis", std::int64_t{1}}, {"descending", true}}))
      .define();
  Definition(
      "topk",
      "The k largest (or smallest) elements along an axis in order, and where they were; "
      "the first of equal ones if stable. If kth, only the last of them is in its place, and "
      "is that of PyTorch's kthvalue. NaN is larger than every number.")
      .in({"x"})
      .out({"values", "indices"})
      .attrs<TopK>()
      .traits(Trait::pure)
      .infer([](const InferContext& c) {
        const auto a = c.as<TopK>();
        require_sort_axis(c, a.axis);
        Shape shape = c.in(0).shape;
        Dim& size = shape[static_cast<std::size_t>(a.axis)];
        if (!assume_le(0, a.k) || !assume_le(a.k, size)) {
          fail(ErrorCode::shape_mismatch, "topk: ", a.k, " elements of axis ", a.axis, " of ",
               c.in(0), ", which has ", size);
        }
        size = a.k;
        return std::vector{Type::tensor(c.in(0).dtype, shape), Type::tensor(DType::i64, shape)};
      })
      .expand(expand_topk)
      .problem(topk_rule())
      .reference(topk_reference)
      .aten("aten.topk.default", import_topk)
      .sample(matrix_sample({{"axis", std::int64_t{1}}, {"k", Dim(4)}, {"largest", false}}))
      .define();
  register_aten_row("aten.kthvalue.default", import_kthvalue);
  register_aten_row("aten.median.dim", import_middle_of_axis(median));
  register_aten_row("aten.median.default", import_middle(median));
  register_aten_row("aten.nanmedian.dim", import_middle_of_axis(nanmedian));
  register_aten_row("aten.nanmedian.default", import_middle(nanmedian));
  register_aten_facts({"aten.sort"}, {.places_axis = 1, .padding = AtenFacts::Padding::folds});
  register_aten_facts(
      {"aten.topk"},
      {.places_axis = 2, .padding = AtenFacts::Padding::folds, .padding_argument = 2});
}

}  // namespace gex::ops
