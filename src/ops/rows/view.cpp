// The ATen rows of views. PyTorch already knows the result's shape, so most rows only have to
// select the view.

#include <optional>

#include "ops/core/build.hpp"
#include "ops/core/define.hpp"
#include "ops/core/families.hpp"
#include "ops/rows/rows.hpp"

namespace gex::ops {

namespace {

std::vector<Value*> import_reshape(AtenCall& c) {
  return one(reshape(c.graph(), c.tensor(0), c.result().shape));
}

std::vector<Value*> import_expand(AtenCall& c) {
  return one(expand(c.graph(), c.tensor(0), c.result().shape));
}

std::vector<Value*> import_swap(AtenCall& c) {
  return one(swap_axes(c.graph(), c.tensor(0), c.integer(1), c.integer(2)));
}

// Negative positions count from the end; the rest is clamped, as in Python.
Dim clamped_start(Dim start, Dim size) {
  if (known_lt(start, 0) == true) start = start + size;
  if (known_le(0, start) == true && known_le(start, size) == true) return start;
  return min(max(start, 0), size);
}

Dim slice_start(const AtenCall& c, std::size_t i, Dim size) {
  return c.none(i) ? Dim(0) : clamped_start(c.dim(i), size);
}

std::vector<Value*> import_slice(AtenCall& c) {
  Value* x = c.tensor(0);
  const std::int64_t axis = normal_axis(c.integer(1), x->type().rank());
  const auto k = static_cast<std::size_t>(axis);
  const Dim start = slice_start(c, 2, x->type().shape[k]);
  return one(slice(c.graph(), x, axis, start, c.result().shape[k], c.integer(4)));
}

Dim selected(Dim index, Dim size) { return known_lt(index, 0) == true ? index + size : index; }

std::vector<Value*> import_select(AtenCall& c) {
  Value* x = c.tensor(0);
  const std::int64_t axis = normal_axis(c.integer(1), x->type().rank());
  const Dim index = selected(c.dim(2), x->type().shape[static_cast<std::size_t>(axis)]);
  return one(select(c.graph(), x, axis, index));
}

// Parts with the sizes of the fake results.
std::vector<Value*> import_split(AtenCall& c) {
  Value* x = c.tensor(0);
  const std::int64_t axis = normal_axis(c.integer(2), x->type().rank());
  std::vector<Value*> pieces;
  Dim start = 0;
  for (const Type& piece : c.results()) {
    const Dim size = piece.shape[static_cast<std::size_t>(axis)];
    pieces.push_back(slice(c.graph(), x, axis, start, size));
    start += size;
  }
  return pieces;
}

std::vector<Value*> import_unbind(AtenCall& c) {
  Value* x = c.tensor(0);
  const std::int64_t axis = normal_axis(c.integer(1), x->type().rank());
  std::vector<Value*> pieces;
  for (std::size_t k = 0; k < c.results().size(); ++k) {
    pieces.push_back(select(c.graph(), x, axis, Dim(static_cast<std::int64_t>(k))));
  }
  return pieces;
}

std::vector<Value*> import_cat(AtenCall& c) {
  std::vector<Value*> parts;
  for (Value* x : c.tensors(0)) {
    // PyTorch skips legacy empty tensors of shape [0] whatever the rank of the others.
    const bool skipped =
        x->type().rank() == 1 && x->type().shape[0] == Dim(0) && c.result().rank() != 1;
    if (!skipped) parts.push_back(cast(c.graph(), x, c.result().dtype));
  }
  if (parts.empty()) return {};
  return one(cat(c.graph(), parts, normal_axis(c.integer(1), c.result().rank())));
}

std::vector<Value*> import_stack(AtenCall& c) {
  const std::int64_t axis = normal_axis(c.integer(1), c.result().rank());
  std::vector<Value*> parts;
  for (Value* x : c.tensors(0)) {
    parts.push_back(unsqueeze(c.graph(), cast(c.graph(), x, c.result().dtype), axis));
  }
  return one(cat(c.graph(), parts, axis));
}

// x repeated: [r, 1-expanded, n] merged back into [r*n] on each axis.
std::vector<Value*> import_repeat(AtenCall& c) {
  Graph& g = c.graph();
  const Dims repeats = c.dims(1);
  Shape shape = c.tensor(0)->type().shape;
  shape.insert(shape.begin(), repeats.size() - shape.size(), Dim(1));
  Shape spread, stretched;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    spread.insert(spread.end(), {Dim(1), shape[k]});
    stretched.insert(stretched.end(), {repeats[k], shape[k]});
  }
  Value* x = expand(g, reshape(g, c.tensor(0), spread), stretched);
  return one(reshape(g, x, c.result().shape));
}

std::vector<Value*> import_repeat_interleave(AtenCall& c) {  // (x, repeats, dim, output_size)
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  if (c.none(2)) x = reshape(g, x, {x->type().numel()});
  const std::int64_t axis = c.none(2) ? 0 : normal_axis(c.integer(2), x->type().rank());
  Shape stretched = x->type().shape;
  stretched.insert(stretched.begin() + axis + 1, c.dim(1));
  x = expand(g, unsqueeze(g, x, axis + 1), stretched);
  return one(reshape(g, x, c.result().shape));
}

std::vector<Value*> import_roll(AtenCall& c) {
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  const Shape original = x->type().shape;
  const Dims shifts = c.dims(1);
  Ints axes = c.none(2) ? Ints{} : c.integers(2);
  if (axes.empty()) {
    x = reshape(g, x, {x->type().numel()});
    axes = {0};
  }
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::int64_t axis = normal_axis(axes[k], x->type().rank());
    const Dim size = x->type().shape[static_cast<std::size_t>(axis)];
    if (size == Dim(0)) continue;
    x = roll(g, x, axis, mod(Dim(0) - shifts[k], size));
  }
  return one(reshape(g, x, original));
}

// Gradients of slices and selects: zeros with the gradient at its position.
std::vector<Value*> place_in_zeros(AtenCall& c, Value* grad, std::int64_t axis, Dim start,
                                   std::int64_t step) {
  Graph& g = c.graph();
  const Shape& shape = c.result().shape;
  const auto k = static_cast<std::size_t>(axis);
  Dims low(shape.size());
  low[k] = start;
  if (step == 1) {
    Dims high(shape.size());
    high[k] = shape[k] - start - grad->type().shape[k];
    return one(pad(g, grad, low, high));
  }
  Ints steps(shape.size(), 1);
  steps[k] = step;
  Value* zeros = full(g, c.result().dtype, 0, shape);
  return one(slice_update(g, zeros, grad, low, steps));
}

std::vector<Value*> import_slice_backward(AtenCall& c) {  // grad, sizes, dim, start, end, step
  const int rank = c.result().rank();
  const std::int64_t axis = normal_axis(c.integer(2), rank);
  const Dim size = c.result().shape[static_cast<std::size_t>(axis)];
  return place_in_zeros(c, c.tensor(0), axis, clamped_start(c.dim(3), size), c.integer(5));
}

std::vector<Value*> import_select_backward(AtenCall& c) {  // grad, sizes, dim, index
  const std::int64_t axis = normal_axis(c.integer(2), c.result().rank());
  const Dim size = c.result().shape[static_cast<std::size_t>(axis)];
  Value* grad = unsqueeze(c.graph(), c.tensor(0), axis);
  return place_in_zeros(c, grad, axis, selected(c.dim(3), size), 1);
}

std::vector<Value*> import_slice_scatter(AtenCall& c) {  // x, src, dim, start, end, step
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  const auto rank = static_cast<std::size_t>(x->type().rank());
  const auto k = static_cast<std::size_t>(normal_axis(c.integer(2), x->type().rank()));
  Dims starts(rank);
  Ints steps(rank, 1);
  starts[k] = slice_start(c, 3, x->type().shape[k]);
  steps[k] = c.integer(5);
  return one(slice_update(g, x, cast(g, c.tensor(1), x->type().dtype), starts, steps));
}

std::vector<Value*> import_select_scatter(AtenCall& c) {  // x, src, dim, index
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  const auto rank = static_cast<std::size_t>(x->type().rank());
  const std::int64_t axis = normal_axis(c.integer(2), x->type().rank());
  const auto k = static_cast<std::size_t>(axis);
  Dims starts(rank);
  starts[k] = selected(c.dim(3), x->type().shape[k]);
  Value* source = unsqueeze(g, cast(g, c.tensor(1), x->type().dtype), axis);
  return one(slice_update(g, x, source, starts, Ints(rank, 1)));
}

// The diagonal of two axes as a strided slice: element i of it is element start + i*(columns+1) of
// the flattened matrix.
struct Diagonal {
  Ints perm;  // the two axes last
  Dim columns;
  Dim start;
};

std::optional<Diagonal> diagonal_of(const Shape& shape, std::int64_t offset, std::int64_t axis1,
                                    std::int64_t axis2) {
  const int rank = static_cast<int>(shape.size());
  axis1 = normal_axis(axis1, rank);
  axis2 = normal_axis(axis2, rank);
  Diagonal d;
  for (std::int64_t k = 0; k < rank; ++k) {
    if (k != axis1 && k != axis2) d.perm.push_back(k);
  }
  d.perm.insert(d.perm.end(), {axis1, axis2});
  d.columns = shape[static_cast<std::size_t>(axis2)];
  // The step of a slice must be constant.
  if (!d.columns.is_const()) return std::nullopt;
  d.start = offset >= 0 ? Dim(offset) : Dim(-offset) * d.columns;
  return d;
}

Shape flat_matrix(const Shape& shape) {
  Shape flat(shape.begin(), shape.end() - 2);
  flat.push_back(shape[shape.size() - 2] * shape[shape.size() - 1]);
  return flat;
}

std::vector<Value*> import_diagonal(AtenCall& c) {  // x, offset, dim1, dim2
  Graph& g = c.graph();
  Value* x = c.tensor(0);
  const auto d = diagonal_of(x->type().shape, c.integer(1), c.integer(2), c.integer(3));
  if (!d) return {};
  x = transpose(g, x, d->perm);
  x = reshape(g, x, flat_matrix(x->type().shape));
  const Dim size = c.result().shape.back();
  if (size == Dim(0)) return one(full(g, c.result().dtype, 0, c.result().shape));
  return one(slice(g, x, -1, d->start, size, d->columns.constant() + 1));
}

std::vector<Value*> import_diagonal_backward(AtenCall& c) {  // grad, sizes, offset, dim1, dim2
  Graph& g = c.graph();
  Value* grad = c.tensor(0);
  const Shape& shape = c.result().shape;
  const auto d = diagonal_of(shape, c.integer(2), c.integer(3), c.integer(4));
  if (!d) return {};
  if (grad->type().shape.back() == Dim(0)) return one(full(g, c.result().dtype, 0, shape));
  Shape permuted;
  Ints inverse(d->perm.size());
  for (std::size_t k = 0; k < d->perm.size(); ++k) {
    permuted.push_back(shape[static_cast<std::size_t>(d->perm[k])]);
    inverse[static_cast<std::size_t>(d->perm[k])] = static_cast<std::int64_t>(k);
  }
  const Shape flat = flat_matrix(permuted);
  Dims starts(flat.size());
  starts.back() = d->start;
  Ints steps(flat.size(), 1);
  steps.back() = d->columns.constant() + 1;
  Value* zeros = full(g, c.result().dtype, 0, flat);
  Value* placed = reshape(g, slice_update(g, zeros, grad, starts, steps), permuted);
  return one(transpose(g, placed, inverse));
}

void register_view_facts() {
  register_aten_facts({"aten.view", "aten.reshape"},
                      {.range = AtenFacts::Range::same,
                       .no_op = AtenFacts::NoOp::always,
                       .padding = AtenFacts::Padding::keeps_positions});
  register_aten_facts(
      {"aten.expand", "aten.permute", "aten.squeeze", "aten.t", "aten.transpose", "aten.unsqueeze"},
      {.range = AtenFacts::Range::same, .padding = AtenFacts::Padding::keeps_positions});
  register_aten_facts({"aten._unsafe_view", "aten.stack"},
                      {.padding = AtenFacts::Padding::keeps_positions});
  register_aten_facts({"aten.flip"}, {.range = AtenFacts::Range::same});
  register_aten_facts({"aten.repeat"},
                      {.range = AtenFacts::Range::same, .no_op = AtenFacts::NoOp::always});
  register_aten_facts({"aten.select"}, {.range = AtenFacts::Range::same,
                                        .padding = AtenFacts::Padding::from_the_front});
  register_aten_facts({"aten.slice"}, {.range = AtenFacts::Range::same,
                                       .no_op = AtenFacts::NoOp::always,
                                       .padding = AtenFacts::Padding::from_the_front});
  register_aten_facts({"aten.slice_scatter"},
                      {.no_op = AtenFacts::NoOp::always, .no_op_argument = 1});
  register_aten_facts({"aten.cat"}, {.no_op = AtenFacts::NoOp::one_part,
                                     .padding = AtenFacts::Padding::along_axis});
  register_aten_facts({"aten.unbind"}, {.padding = AtenFacts::Padding::along_axis});
  register_aten_facts({"aten.chunk", "aten.split", "aten.split_with_sizes"},
                      {.padding = AtenFacts::Padding::along_axis, .padding_argument = 2});
}

}  // namespace

void register_view_rows() {
  register_aten_row("aten.diagonal.default", import_diagonal);
  register_aten_row("aten.diagonal_backward.default", import_diagonal_backward);
  for (const char* overload :
       {"aten.view.default", "aten._unsafe_view.default", "aten.reshape.default",
        "aten._reshape_alias.default", "aten.view_copy.default", "aten.squeeze.default",
        "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default",
        "aten.flatten.using_ints", "aten.unflatten.int"}) {
    register_aten_row(overload, import_reshape);
  }
  for (const char* overload :
       {"aten.expand.default", "aten.expand_copy.default", "aten.broadcast_to.default"}) {
    register_aten_row(overload, import_expand);
  }
  register_aten_row("aten.permute.default", [](AtenCall& c) {
    return one(transpose(c.graph(), c.tensor(0), c.integers(1)));
  });
  register_aten_row("aten.transpose.int", import_swap);
  register_aten_row("aten.t.default", [](AtenCall& c) {
    Value* x = c.tensor(0);
    return one(x->type().rank() < 2 ? x : swap_axes(c.graph(), x, 0, 1));
  });
  register_aten_row("aten.slice.Tensor", import_slice);
  register_aten_row("aten.select.int", import_select);
  register_aten_row("aten.split.Tensor", import_split);
  register_aten_row("aten.split_with_sizes.default", import_split);
  register_aten_row("aten.chunk.default", import_split);
  register_aten_row("aten.unsafe_chunk.default", import_split);
  register_aten_row("aten.unsafe_split.Tensor", import_split);
  register_aten_row("aten.unbind.int", import_unbind);
  register_aten_row("aten.cat.default", import_cat);
  register_aten_row("aten.stack.default", import_stack);
  register_aten_row("aten.repeat.default", import_repeat);
  register_aten_row("aten.repeat_interleave.self_int", import_repeat_interleave);
  register_aten_row("aten.roll.default", import_roll);
  register_aten_row("aten.slice_backward.default", import_slice_backward);
  register_aten_row("aten.select_backward.default", import_select_backward);
  register_aten_row("aten.slice_scatter.default", import_slice_scatter);
  register_aten_row("aten.select_scatter.default", import_select_scatter);
  register_view_facts();
}

}  // namespace gex::ops
