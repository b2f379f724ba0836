#include "backend/cuda/loop_mode.hpp"

#include <algorithm>

#include "backend/cuda/body_writer.hpp"
#include "loop/walk.hpp"

namespace gex::backend::cuda {

using loop::Kernel;
using loop::Range;
using loop::Stage;
using loop::Store;

Dim points_of(const std::vector<Range>& ranges) {
  Dim points = 1;
  for (const Range& range : ranges) points *= range.extent();
  return points;
}

Dim inner_points(const Kernel& kernel) {
  Dim inner = 1;
  for (const Stage& stage : kernel.stages) {
    Dim points = points_of(stage.domain) * points_of(stage.reduce);
    for (const auto* ranges : {&kernel.grid, &stage.domain, &stage.reduce})
      for (const Range& range : *ranges)
        if (points.depends_on(range.index)) points = Dim(DimRange::kInf);
    inner = max(inner, points);
  }
  return inner;
}

namespace {

constexpr std::int64_t kShortLoop = 64;  // inner loops up to this length run in one thread

bool atomic_add_exists(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
}

// Neighbouring grid points read neighbouring elements, and the reduction runs over rows.
bool reduces_columns(const Kernel& kernel) {
  if (kernel.stages.size() != 1 || kernel.grid.empty()) return false;
  const Stage& stage = kernel.stages.front();
  if (!stage.reduction || stage.reduction->scan || !stage.domain.empty()) return false;
  const auto places = loop::loop_positions(stage);
  for (const Store& s : stage.stores)
    if (s.shared || loop::runs_at_element(stage, loop::loop_position(stage, places, s)))
      return false;
  bool columns = false;
  for (const loop::Expr& e : stage.exprs) {
    if (e.kind != loop::Expr::Kind::load) continue;
    const Dim offset = loop::linear_offset(kernel.buffers[at(e.buffer)], e.index);
    const auto by_point = affine_in(offset, kernel.grid.back().index);
    const auto by_step = affine_in(offset, stage.reduce.back().index);
    if (by_step && by_step->coefficient == Dim(1)) return false;
    columns = columns || (by_point && by_point->coefficient == Dim(1) && by_step &&
                          !(by_step->coefficient == Dim(0)));
  }
  return columns;
}

// How a kernel with ordered stores runs.
Mode ordered_mode(const Kernel& kernel) {
  for (const Range& range : kernel.grid)
    for (const Range& other : kernel.grid)
      if (range.extent().depends_on(other.index)) return Mode::one_thread;
  for (const loop::Buffer& buffer : kernel.buffers)
    if (buffer.role == loop::Buffer::Role::local) return Mode::one_thread;
  if (points_of(separating_ranges(kernel)).range().hi >= kBlock) return Mode::lanes;
  if (kernel.stages.size() != 1) return Mode::one_thread;
  const Stage& stage = kernel.stages.front();
  // Values that a point stores must not depend on what earlier points stored.
  for (const Store& s : stage.stores)
    for (const loop::Expr& e : stage.exprs)
      if (e.kind == loop::Expr::Kind::load && e.buffer == s.buffer) return Mode::one_thread;
  return stage.reduction || !stage.domain.empty() ? Mode::one_thread : Mode::owners;
}

}  // namespace

bool needs_order(const Kernel& kernel, const Store& store) {
  const DType dtype = kernel.buffers[at(store.buffer)].dtype;
  return store.shared &&
         (store.ordered || (store.mode != Store::Mode::set &&
                            (store.mode != Store::Mode::add || !atomic_add_exists(dtype))));
}

std::vector<Range> separating_ranges(const Kernel& kernel) {
  std::vector<Range> ranges = kernel.grid;
  for (const Stage& stage : kernel.stages)
    for (const Store& s : stage.stores)
      if (needs_order(kernel, s))
        std::erase_if(ranges, [&](const Range& range) {
          return std::find(s.index.begin(), s.index.end(), range.index) == s.index.end();
        });
  return ranges;
}

Mode mode_of(const Kernel& kernel) {
  bool locals = false, ordered_domain = false;
  for (const loop::Buffer& buffer : kernel.buffers)
    locals = locals || buffer.role == loop::Buffer::Role::local;
  for (const Stage& stage : kernel.stages) {
    for (const Store& store : stage.stores) {
      if (needs_order(kernel, store)) return ordered_mode(kernel);
      ordered_domain = ordered_domain || store.ordered;
    }
  }
  if (locals) return Mode::teams;
  // Points that must process their domain in order have no work to divide among the threads of a
  // block.
  if (ordered_domain || inner_points(kernel).range().hi <= kShortLoop) return Mode::points;
  return reduces_columns(kernel) ? Mode::columns : Mode::teams;
}

Kernel with_flat_grid(const Kernel& kernel) {
  if (kernel.grid.size() < 2 || kernel.stages.size() != 1 || kernel.stages[0].reduction ||
      !kernel.stages[0].domain.empty())
    return kernel;
  for (const Range& range : kernel.grid)
    for (const Range& other : kernel.grid)
      if (range.extent().depends_on(other.index)) return kernel;
  Dim linear = 0;
  for (const Range& range : kernel.grid) linear = linear * range.extent() + range.index;
  const auto varies = [&](Dim d) {
    return std::any_of(kernel.grid.begin(), kernel.grid.end(),
                       [&](const Range& range) { return d.depends_on(range.index); });
  };
  Kernel flat = kernel;
  const Dim size = kernel.grid_size();
  const Range whole{Dim::index("flat", size)};
  flat.grid = {whole};
  std::vector<bool> is_linear(kernel.buffers.size(), false), is_other(kernel.buffers.size(), false);
  const auto rewrite = [&](int buffer, std::vector<Dim>& index) {
    const Dim offset = loop::linear_offset(kernel.buffers[at(buffer)], index);
    if (offset == linear) {
      is_linear[at(buffer)] = true;
      index = {whole.index};
    } else {
      is_other[at(buffer)] = true;
    }
    return offset == linear || !varies(offset);
  };
  Stage& stage = flat.stages[0];
  for (loop::Expr& e : stage.exprs) {
    if (e.kind == loop::Expr::Kind::index && varies(e.dim)) return kernel;
    if (e.kind == loop::Expr::Kind::load && !rewrite(e.buffer, e.index)) return kernel;
  }
  for (Store& s : stage.stores)
    if (!rewrite(s.buffer, s.index)) return kernel;
  for (std::size_t b = 0; b < flat.buffers.size(); ++b) {
    if (is_linear[b] && is_other[b]) return kernel;
    if (!is_linear[b]) continue;
    flat.buffers[b].shape = {size};
    flat.buffers[b].strides.clear();
  }
  return flat;
}

}  // namespace gex::backend::cuda
