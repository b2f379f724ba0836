#include "passes/split_reductions.hpp"

#include <numeric>
#include <optional>

#include "ir/label_propagation.hpp"
#include "ops/core/build.hpp"

namespace gex::passes {
namespace {

// Smaller tensors are reduced faster by one thread.
constexpr std::int64_t kManyElements = 32 * 1024;
constexpr std::int64_t kLongRow = 1024;
constexpr std::int64_t kEnoughRows = 8, kMostRows = 16 * 1024;

// Reductions for which reducing the results of parts gives the result of the whole.
bool folds_again(const Node& node) {
  return node.is("reduce_sum") || node.is("reduce_max") || node.is("reduce_min");
}

// How many leading axes form good rows.
std::optional<std::size_t> leading_axes(const Shape& shape) {
  for (std::size_t k = 1; k < shape.size(); ++k) {
    const Dim rows = product(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(k)));
    const Dim row = product(Shape(shape.begin() + static_cast<std::ptrdiff_t>(k), shape.end()));
    if (row.range().lo < kLongRow) return std::nullopt;
    if (!rows.is_const() || (rows.constant() >= kEnoughRows && rows.constant() <= kMostRows))
      return k;
  }
  return std::nullopt;
}

// A tensor of this many elements as rows of equal length.
std::optional<Shape> as_rows(Dim elements) {
  if (!elements.is_const()) return std::nullopt;
  const std::int64_t n = elements.constant();
  for (std::int64_t rows = 64; rows >= kEnoughRows; --rows)
    if (n % rows == 0) return Shape{Dim(rows), Dim(n / rows)};
  return std::nullopt;
}

ops::Ints axes_between(std::size_t begin, std::size_t end) {
  ops::Ints axes(end - begin);
  std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(begin));
  return axes;
}

bool split(Graph& graph, Node& node) {
  const bool mean = node.is("reduce_mean");
  Value* x = node.input(0);
  const Type type = node.output()->type();
  const Dim elements = x->type().numel();
  if (!(type.numel() == Dim(1)) || type.strides || elements.range().lo < kManyElements)
    return false;
  if (mean && !elements.is_const()) return false;
  std::optional<std::size_t> rows = leading_axes(x->type().shape);
  const std::optional<Shape> reshaped = rows ? std::nullopt : as_rows(elements);
  if (!rows && !reshaped) return false;

  LabelPropagation labels(graph, &node);
  InsertBefore here(graph, &node);
  graph.set_location(node.location());
  // Partial results are rounded no earlier than the whole would be.
  if (is_low_float(type.dtype)) x = ops::cast(graph, x, DType::f32);
  if (reshaped) {
    x = ops::reshape(graph, x, *reshaped);
    rows = 1;
  }
  const std::string name = mean ? "reduce_sum" : node.op().name;
  Value* parts = ops::reduce(graph, name, x, axes_between(*rows, x->type().shape.size()), false);
  Value* whole = ops::reduce(graph, name, parts, axes_between(0, *rows), false);
  if (mean) whole = ops::div(graph, whole, static_cast<double>(elements.constant()));
  whole = ops::cast(graph, whole, type.dtype);
  if (!type.shape.empty()) whole = ops::reshape(graph, whole, type.shape);
  graph.set_location({});
  labels.apply(node);
  graph.replace_all_uses(node.output(), whole);
  return true;
}

}  // namespace

bool split_reductions(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes()) {
    for (const auto& subgraph : node.subgraphs()) changed |= split_reductions(*subgraph, context);
    if (!folds_again(node) && !node.is("reduce_mean")) continue;
    if (node.output()->uses().empty() || !split(graph, node)) continue;
    context.count();
    changed = true;
  }
  return changed;
}

}  // namespace gex::passes
