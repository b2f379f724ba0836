#include "lower/grid_order.hpp"

#include <algorithm>

#include "loop/walk.hpp"

namespace gex::lower {
namespace {

using loop::Expr;
using loop::Kernel;
using loop::Stage;
using loop::Store;

// Costs of an access at neighbouring points, relative to neighbouring elements.
constexpr double kSameElement = 0.3, kNeighbours = 1, kApart = 10;
// Shorter axes don't fill vectors.
constexpr std::int64_t kShort = 8;

double access_cost(const Kernel& kernel, int buffer, const std::vector<Dim>& index, Dim axis) {
  const Dim offset = loop::linear_offset(kernel.buffers[static_cast<std::size_t>(buffer)], index);
  if (!offset.depends_on(axis)) return kSameElement;
  const auto parts = affine_in(offset, axis);
  const auto step = parts ? parts->coefficient.as_const() : std::nullopt;
  if (!step) return kApart;
  const auto distance = static_cast<double>(*step < 0 ? -*step : *step);
  return std::min(kNeighbours + 2 * (distance - 1), kApart);
}

double cost_along(const Kernel& kernel, Dim axis) {
  double cost = 0;
  for (const Stage& stage : kernel.stages) {
    for (const Expr& e : stage.exprs)
      if (e.kind == Expr::Kind::load) cost += access_cost(kernel, e.buffer, e.index, axis);
    for (const Store& s : stage.stores) cost += access_cost(kernel, s.buffer, s.index, axis);
  }
  return cost;
}

bool is_short(Dim extent) { return extent.range().hi < kShort; }

}  // namespace

void order_grid(Kernel& kernel) {
  if (kernel.grid.size() < 2 || kernel.ordered()) return;
  std::size_t best = kernel.grid.size() - 1;
  double least = 0.6 * cost_along(kernel, kernel.grid.back().index);
  for (std::size_t a = 0; a + 1 < kernel.grid.size(); ++a) {
    if (is_short(kernel.grid[a].extent())) continue;
    const double cost = cost_along(kernel, kernel.grid[a].index);
    if (cost >= least) continue;
    least = cost;
    best = a;
  }
  const auto at = kernel.grid.begin() + static_cast<std::ptrdiff_t>(best);
  std::rotate(at, at + 1, kernel.grid.end());
}

}  // namespace gex::lower
