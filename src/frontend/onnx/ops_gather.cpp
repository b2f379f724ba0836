// Reading and writing at index tensors.

#include "frontend/onnx/expr.hpp"
#include "frontend/onnx/views.hpp"

namespace gex::onnx {
namespace {

Items gather(Row& r) {
  const std::int64_t axis = r.axis_attr("axis", 0, r.rank());
  Value* at = nonnegative(r.g, r.in(1), r.shape()[static_cast<std::size_t>(axis)]);
  return r.one(ops::take(r.g, r.in(0), at, axis));
}

Items gather_elements(Row& r) {
  const std::int64_t axis = r.axis_attr("axis", 0, r.rank());
  Value* at = nonnegative(r.g, r.in(1), r.shape()[static_cast<std::size_t>(axis)]);
  return r.one(ops::take_along(r.g, r.in(0), at, axis));
}

// Index tensors of the axes after the batch axes, from the last axis of `indices`; batch axes are
// indexed by their own positions.
std::vector<Value*> nd_indices(Row& r, Value* indices, const Shape& shape, std::int64_t batch) {
  Graph& g = r.g;
  const Shape& s = indices->type().shape;
  const auto depth = s.back().as_const();
  if (!depth) r.refuse("the number of indexed axes is not known");
  const int rank = indices->type().rank();
  std::vector<Value*> result;
  for (std::int64_t b = 0; b < batch; ++b) {
    Shape along(s.begin(), s.end() - 1);
    for (std::size_t d = 0; d < along.size(); ++d)
      if (d != static_cast<std::size_t>(b)) along[d] = Dim(1);
    Shape full(s.begin(), s.end() - 1);
    result.push_back(
        ops::expand(g, ops::reshape(g, ops::iota(g, s[static_cast<std::size_t>(b)]), along), full));
  }
  for (std::int64_t k = 0; k < *depth; ++k) {
    Value* part = ops::select(g, indices, rank - 1, k);
    result.push_back(nonnegative(g, part, shape[static_cast<std::size_t>(batch + k)]));
  }
  return result;
}

Ints first_axes(std::size_t n) {
  Ints axes;
  for (std::size_t k = 0; k < n; ++k) axes.push_back(static_cast<std::int64_t>(k));
  return axes;
}

Items gather_nd(Row& r) {
  const auto at = nd_indices(r, r.in(1), r.shape(), r.int_attr("batch_dims", 0));
  return r.one(ops::index(r.g, r.in(0), at, first_axes(at.size())));
}

std::string put_mode(const Row& r) {
  const std::string reduction = r.string_attr("reduction", "none");
  return reduction == "none" ? "set" : reduction;
}

Items scatter_elements(Row& r) {
  const std::int64_t axis = r.axis_attr("axis", 0, r.rank());
  Value* at = nonnegative(r.g, r.in(1), r.shape()[static_cast<std::size_t>(axis)]);
  return r.one(ops::scatter(r.g, r.in(0), at, r.in(2), axis, put_mode(r)));
}

Items scatter_nd(Row& r) {
  const auto at = nd_indices(r, r.in(1), r.shape(), 0);
  return r.one(ops::index_put(r.g, r.in(0), r.in(2), at, first_axes(at.size()), put_mode(r)));
}

// A cache [batch, ..., sequence, ...] with an update written at a position per batch entry.
Items tensor_scatter(Row& r) {
  Graph& g = r.g;
  const std::int64_t axis = r.axis_attr("axis", -2, r.rank());
  const bool circular = r.string_attr("mode", "linear") == "circular";
  const Shape& s = r.shape(1);
  const Dim size = r.shape()[static_cast<std::size_t>(axis)];
  Shape along(s.size(), Dim(1)), batch(s.size(), Dim(1));
  along[static_cast<std::size_t>(axis)] = s[static_cast<std::size_t>(axis)];
  batch[0] = s[0];
  Expr place = reshape(iota(g, s[static_cast<std::size_t>(axis)]), along);
  if (r.has(2)) place = place + reshape(expr(r, 2), batch);
  if (circular) place = binary("mod", place, {g, ops::dim_value(g, size)});
  return r.one(ops::scatter(g, r.in(0), expand(place, s), r.in(1), axis, "set"));
}

Items one_hot(Row& r) {
  Graph& g = r.g;
  Dim depth;
  if (gex::is_float(r.dtype(1)))
    depth = static_cast<std::int64_t>(r.number(1, "depth").get(0));
  else
    depth = r.dims(1, "depth").at(0);
  const std::int64_t axis = r.axis_attr("axis", -1, r.rank() + 1);
  Value* at = nonnegative(g, r.in(0), depth);
  Shape along(static_cast<std::size_t>(r.rank()) + 1, Dim(1));
  along[static_cast<std::size_t>(axis)] = depth;
  Expr hit = Expr(g, ops::unsqueeze(g, at, axis)) == reshape(iota(g, depth), along);
  Expr values = expr(r, 2);
  return r.one(where(hit, select(values, 0, 1), select(values, 0, 0)), r.elem(2));
}

}  // namespace

void add_gather_rows() {
  add_row("Gather", gather);
  add_row("GatherElements", gather_elements);
  add_row("GatherND", gather_nd);
  add_row("ScatterElements", scatter_elements);
  add_row("Scatter", scatter_elements);
  add_row("ScatterND", scatter_nd);
  add_row("TensorScatter", tensor_scatter);
  add_row("OneHot", one_hot);
}

}  // namespace gex::onnx
