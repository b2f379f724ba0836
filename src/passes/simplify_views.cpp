#include "passes/simplify_views.hpp"

#include <algorithm>
#include <array>

#include "ops/core/build.hpp"
#include "passes/dtypes.hpp"
#include "passes/engine/rules.hpp"

namespace gex::passes {
namespace {

// slice(slice(x)) -> slice(x)
Value* join_slices(Graph& graph, Node& node) {
  if (!node.is("slice")) return nullptr;
  Node* inner = producer_of(node.input(0), "slice");
  if (inner == nullptr) return nullptr;
  auto outer = node.as<ops::Slice>();
  const auto before = inner->as<ops::Slice>();
  for (std::size_t d = 0; d < outer.starts.size(); ++d) {
    outer.starts[d] = before.starts[d] + outer.starts[d] * Dim(before.steps[d]);
    outer.steps[d] *= before.steps[d];
  }
  return ops::apply(graph, "slice", {inner->input(0)}, outer);
}

// expand(expand(x)) -> expand(x)
Value* join_expands(Graph& graph, Node& node) {
  if (!node.is("expand")) return nullptr;
  Node* inner = producer_of(node.input(0), "expand");
  if (inner == nullptr) return nullptr;
  return ops::expand(graph, inner->input(0), node.output()->type().shape);
}

// flip(flip(x, a), a) -> x
Value* drop_double_flip(Graph&, Node& node) {
  if (!node.is("flip")) return nullptr;
  Node* inner = producer_of(node.input(0), "flip");
  if (inner == nullptr || inner->as<ops::Axes>().axes != node.as<ops::Axes>().axes) return nullptr;
  return inner->input(0);
}

// transpose(x) that only moves axes of size 1 -> reshape(x)
Value* reshape_for_unit_axes(Graph& graph, Node& node) {
  if (!node.is("transpose")) return nullptr;
  const Shape& shape = node.input(0)->type().shape;
  std::int64_t last = -1;
  for (std::int64_t axis : node.as<ops::Transpose>().perm) {
    if (shape[static_cast<std::size_t>(axis)] == Dim(1)) continue;
    if (axis < last) return nullptr;
    last = axis;
  }
  return ops::reshape(graph, node.input(0), node.output()->type().shape);
}

// cast(view(cast(x, wide)), t) -> cast(view(x), t) where `wide` holds every value of x's dtype.
Value* drop_casts_around_view(Graph& graph, Node& node) {
  if (!node.is("cast")) return nullptr;
  Node* view = node.input(0)->producer();
  if (view == nullptr || !view->op().has(Trait::view) || view->inputs().size() != 1 ||
      view->output()->uses().size() != 1)
    return nullptr;
  Node* inner = producer_of(view->input(0), "cast");
  if (inner == nullptr) return nullptr;
  Value* x = inner->input(0);
  if (!holds_all_values(inner->output()->type().dtype, x->type().dtype)) return nullptr;
  return ops::cast(graph, graph.clone_node(*view, {x})->output(), node.output()->type().dtype);
}

// The only axis that a slice shortens, if its step is 1; nothing otherwise.
std::optional<std::size_t> cut_axis(const Node& slice) {
  const auto attrs = slice.as<ops::Slice>();
  const Shape& from = slice.input(0)->type().shape;
  std::optional<std::size_t> axis;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (attrs.steps[d] != 1) return std::nullopt;
    if (attrs.starts[d] == Dim(0) && attrs.sizes[d] == from[d]) continue;
    if (axis) return std::nullopt;
    axis = d;
  }
  return axis;
}

// slice(cat(..., x, ...)) -> slice(x) if it lies inside x.
Value* slice_of_one_part(Graph& graph, Node& node) {
  if (!node.is("slice")) return nullptr;
  Node* cat = producer_of(node.input(0), "cat");
  if (cat == nullptr) return nullptr;
  auto attrs = node.as<ops::Slice>();
  const auto axis = static_cast<std::size_t>(cat->as<ops::Axis>().axis);
  if (attrs.steps[axis] != 1) return nullptr;
  Dim offset = 0;
  for (Value* part : cat->inputs()) {
    const Dim size = part->type().shape[axis];
    const Dim start = attrs.starts[axis] - offset;
    if (known_le(Dim(0), start) == true && known_le(start + attrs.sizes[axis], size) == true) {
      attrs.starts[axis] = start;
      return ops::apply(graph, "slice", {part}, attrs);
    }
    offset += size;
  }
  return nullptr;
}

// cat(x) -> x,  cat(..., empty, ...) -> cat(..., ...),  cat(cat(a, b), c) -> cat(a, b, c)
Value* flatten_cat(Graph& graph, Node& node) {
  if (!node.is("cat")) return nullptr;
  const std::int64_t axis = node.as<ops::Axis>().axis;
  if (node.inputs().size() == 1) return node.input(0);
  std::vector<Value*> parts;
  bool simpler = false;
  for (Value* part : node.inputs()) {
    Node* inner = producer_of(part, "cat");
    if (part->type().shape[static_cast<std::size_t>(axis)] == Dim(0)) {
      simpler = true;
    } else if (inner != nullptr && inner->as<ops::Axis>().axis == axis &&
               part->uses().size() == 1) {
      parts.insert(parts.end(), inner->inputs().begin(), inner->inputs().end());
      simpler = true;
    } else {
      parts.push_back(part);
    }
  }
  if (!simpler || parts.empty()) return nullptr;
  return parts.size() == 1 ? parts[0] : ops::cat(graph, std::move(parts), axis);
}

// cat(slice(x, 0, a), slice(x, a, b)) -> slice(x, 0, a + b): adjacent parts of one tensor.
Value* join_neighbours(Graph& graph, Node& node) {
  if (!node.is("cat") || node.inputs().size() < 2) return nullptr;
  const auto axis = static_cast<std::size_t>(node.as<ops::Axis>().axis);
  Node* first = producer_of(node.input(0), "slice");
  if (first == nullptr) return nullptr;
  auto joined = first->as<ops::Slice>();
  Dim end = joined.starts[axis];
  for (Value* part : node.inputs()) {
    Node* slice = producer_of(part, "slice");
    if (slice == nullptr || slice->input(0) != first->input(0) || cut_axis(*slice) != axis)
      return nullptr;
    const auto attrs = slice->as<ops::Slice>();
    if (!(attrs.starts[axis] == end)) return nullptr;
    end += attrs.sizes[axis];
  }
  joined.sizes[axis] = end - joined.starts[axis];
  return ops::apply(graph, "slice", {first->input(0)}, joined);
}

// pad(x, 0, 0) -> x
Value* drop_empty_pad(Graph&, Node& node) {
  if (!node.is("pad")) return nullptr;
  const auto attrs = node.as<ops::Pad>();
  auto none = [](const ops::Dims& amounts) {
    return std::ranges::all_of(amounts, [](Dim amount) { return amount == Dim(0); });
  };
  return none(attrs.low) && none(attrs.high) ? node.input(0) : nullptr;
}

// Whether a slice, or an update of one, covers the range that the inner update writes.
template <class Outer>
bool same_place(const Outer& outer, const Shape& sizes, const Node& update) {
  const auto inner = update.as<ops::SliceUpdate>();
  return inner.starts == outer.starts && inner.steps == outer.steps &&
         update.input(1)->type().shape == sizes;
}

// slice(slice_update(x, v)) -> v if it reads what was written.
Value* read_back(Graph&, Node& node) {
  if (!node.is("slice")) return nullptr;
  Node* update = producer_of(node.input(0), "slice_update");
  if (update == nullptr) return nullptr;
  const auto slice = node.as<ops::Slice>();
  return same_place(slice, slice.sizes, *update) ? update->input(1) : nullptr;
}

// slice_update(slice_update(x, v), w) -> slice_update(x, w) for the same range; slice_update(x, v)
// -> v if v covers all of x.
Value* drop_overwritten(Graph& graph, Node& node) {
  if (!node.is("slice_update")) return nullptr;
  const auto attrs = node.as<ops::SliceUpdate>();
  const Shape& sizes = node.input(1)->type().shape;
  const auto is_zero = [](Dim start) { return start == Dim(0); };
  const auto is_one = [](std::int64_t step) { return step == 1; };
  if (sizes == node.input(0)->type().shape && std::ranges::all_of(attrs.starts, is_zero) &&
      std::ranges::all_of(attrs.steps, is_one))
    return node.input(1);
  Node* inner = producer_of(node.input(0), "slice_update");
  if (inner == nullptr || !same_place(attrs, sizes, *inner)) return nullptr;
  return ops::apply(graph, "slice_update", {inner->input(0), node.input(1)}, attrs);
}

constexpr std::array<Rule, 11> kViewRules = {join_slices,
                                             join_expands,
                                             drop_double_flip,
                                             reshape_for_unit_axes,
                                             drop_casts_around_view,
                                             slice_of_one_part,
                                             flatten_cat,
                                             join_neighbours,
                                             drop_empty_pad,
                                             read_back,
                                             drop_overwritten};

}  // namespace

bool simplify_views(Graph& graph, PassContext& context) {
  return apply_rules(graph, context, kViewRules);
}

}  // namespace gex::passes
