// sort and topk as problems, and their reference implementations in n log n steps (the expansions
// compare every pair).

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/problem_rules.hpp"
#include "ops/sort.hpp"
#include "problems/sort.hpp"

namespace gex::ops {
namespace {

// Attributes common to the two ops.
struct Order {
  std::int64_t axis;
  bool descending;
  Ties ties;
};

Order order_of(const Sort& a) {
  return {a.axis, a.descending, a.stable ? Ties::stable : Ties::as_sort};
}
Order order_of(const TopK& a) {
  if (a.kth) return {a.axis, a.largest, Ties::as_kthvalue};
  return {a.axis, a.largest, a.stable ? Ties::stable : Ties::as_topk};
}

bool is_less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
bool is_less(std::int64_t a, std::int64_t b) { return a < b; }

template <class Key>
void sort_places(std::vector<std::int64_t>& places, const std::vector<Key>& keys,
                 std::int64_t length, bool descending, Ties ties) {
  const auto less = [&](std::int64_t a, std::int64_t b) {
    const Key x = keys[static_cast<std::size_t>(a)], y = keys[static_cast<std::size_t>(b)];
    return descending ? is_less(y, x) : is_less(x, y);
  };
  if (ties == Ties::stable) return std::stable_sort(places.begin(), places.end(), less);
  if (length > 0)
    order_like_eager(places.begin(), static_cast<std::int64_t>(places.size()), length, ties, less);
}

// The first `length` elements of each sorted row along the axis, and their original positions as
// i64.
std::vector<HostTensor> in_order(const HostTensor& x, const Order& order, std::int64_t length) {
  const auto at = static_cast<std::size_t>(order.axis);
  const std::int64_t size = x.shape()[at];
  std::vector<std::int64_t> shape = x.shape();
  shape[at] = length;
  HostTensor values(x.dtype(), shape), indices(DType::i64, shape);
  std::int64_t inner = 1, outer = 1;
  for (std::size_t d = 0; d < at; ++d) outer *= shape[d];
  for (std::size_t d = at + 1; d < shape.size(); ++d) inner *= shape[d];
  const std::size_t bytes = size_of(x.dtype());
  std::vector<std::int64_t> places(static_cast<std::size_t>(size));
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  for (std::int64_t row = 0; row < outer * inner; ++row) {
    const std::int64_t first = row / inner * size * inner + row % inner;
    std::iota(places.begin(), places.end(), std::int64_t{0});
    reals.clear();
    integers.clear();
    for (std::int64_t k = 0; k < size; ++k) {
      if (is_float(x.dtype())) {
        reals.push_back(x.get(first + k * inner));
      } else {
        integers.push_back(x.get_int(first + k * inner));
      }
    }
    if (is_float(x.dtype())) {
      sort_places(places, reals, length, order.descending, order.ties);
    } else {
      sort_places(places, integers, length, order.descending, order.ties);
    }
    const std::int64_t to = row / inner * length * inner + row % inner;
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t place = places[static_cast<std::size_t>(k)];
      std::memcpy(values.data() + static_cast<std::size_t>(to + k * inner) * bytes,
                  x.data() + static_cast<std::size_t>(first + place * inner) * bytes, bytes);
      indices.set_int(to + k * inner, place);
    }
  }
  std::vector<HostTensor> results;
  results.push_back(std::move(values));
  results.push_back(std::move(indices));
  return results;
}

ProblemLaunch launch_of(ProblemContext& c, const Order& order) {
  const auto axis = static_cast<std::size_t>(order.axis);
  const Type& x_type = c.node.input(0)->type();
  StridedOperand x = c.operand(0);
  problems::SortProblem problem;
  problem.dtype = x_type.dtype;
  problem.descending = order.descending;
  problem.ties = order.ties;
  problem.batch_rank = x_type.rank() - 1;
  problem.values = c.is_used(0);
  problem.indices = c.is_used(1);
  const Dim length = x_type.shape[axis];
  ProblemLaunch launch;
  launch.problem = problem;
  launch.dims = {length, c.node.output()->type().shape[axis]};
  Dim rows = 1;
  for (std::size_t d = 0; d < x_type.shape.size(); ++d) {
    if (d == axis) continue;
    launch.dims.push_back(x_type.shape[d]);
    rows *= x_type.shape[d];
  }
  const auto push = [&](std::vector<Dim> strides) {
    const Dim along = strides[axis];
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
    launch.dims.insert(launch.dims.end(), strides.begin(), strides.end());
    launch.dims.push_back(along);
  };
  push(x.strides);
  for (std::size_t k = 0; k < 2; ++k) {
    if (c.is_used(k)) push(result_strides(c.node, k));
  }
  constexpr int kStepsForEachElement = 16;
  launch.work = rows * length * Dim(kStepsForEachElement);
  launch.operands = {std::move(x)};
  return launch;
}

}  // namespace

ProblemRule sort_rule() {
  return {.launch = [](ProblemContext& c) { return launch_of(c, order_of(c.node.as<Sort>())); }};
}

ProblemRule topk_rule() {
  return {.launch = [](ProblemContext& c) { return launch_of(c, order_of(c.node.as<TopK>())); }};
}

std::vector<HostTensor> sort_reference(const ReferenceContext& c) {
  const Order order = order_of(c.node.as<Sort>());
  return in_order(*c.inputs[0], order, c.inputs[0]->shape()[static_cast<std::size_t>(order.axis)]);
}

std::vector<HostTensor> topk_reference(const ReferenceContext& c) {
  const auto attrs = c.node.as<TopK>();
  return in_order(*c.inputs[0], order_of(attrs), c.value_of(attrs.k));
}

}  // namespace gex::ops
