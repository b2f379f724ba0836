#include "backend/cpu/llvm/plan.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.hpp"
#include "loop/combines.hpp"
#include "loop/scalar.hpp"
#include "loop/walk.hpp"

namespace gex::codegen {

using loop::Buffer;
using loop::Expr;
using loop::ExprId;
using loop::Kernel;
using loop::Range;
using loop::Stage;
using loop::Store;

namespace {

// Costs of one access for all lanes, relative to a vector load.
constexpr double kUniform = 0.3, kContiguous = 1, kReversed = 2, kStrided = 10, kGather = 14;
constexpr double kPiece = 1.5;  // of a step of a few elements: a load and a shuffle
// One lane at a time, with a read, a write and a branch each.
constexpr double kLaneByLane = 40;
constexpr double kMathCost = 25;    // of a function like exp, relative to an addition
constexpr double kLoopWeight = 32;  // weight of a stage with loops, relative to one without

bool is_scan(const Stage& stage) { return stage.reduction && stage.reduction->scan; }

// Which expressions depend on an index, directly or through their operands.
std::vector<bool> varying(const Stage& stage, Dim index) {
  std::vector<bool> result(stage.exprs.size());
  for (std::size_t i = 0; i < stage.exprs.size(); ++i) {
    const Expr& e = stage.exprs[i];
    bool v = false;
    loop::for_each_dim(e, [&](Dim d) { v = v || d.depends_on(index); });
    loop::for_each_operand(e, [&](ExprId a) { v = v || result[static_cast<std::size_t>(a)]; });
    result[i] = v;
  }
  return result;
}

bool reads_varying_value(Dim d, const std::vector<bool>& varies) {
  std::vector<Dim> symbols;
  d.collect_symbols(symbols);
  return std::ranges::any_of(symbols, [&](Dim s) {
    auto id = loop::value_symbol_id(s);
    return id && varies[static_cast<std::size_t>(*id)];
  });
}

double access_cost(Dim offset, Dim index, const std::vector<bool>& varies, bool load) {
  if (reads_varying_value(offset, varies)) return kGather;
  if (!offset.depends_on(index)) return kUniform;
  auto parts = affine_in(offset, index);
  if (!parts) return kGather;
  if (parts->coefficient == Dim(1)) return kContiguous;
  auto step = parts->coefficient.as_const();
  if (load && step && *step > 1 && *step <= kMaxVectorStep)
    return static_cast<double>(*step) * kPiece;
  return parts->coefficient == Dim(-1) ? kReversed : kStrided;
}

class StageCosts {
 public:
  StageCosts(const Kernel& kernel, const Stage& stage, int lanes)
      : kernel_(kernel), stage_(stage), lanes_(lanes) {}

  // All accesses for `lanes` neighbouring elements along `index`.
  double along(Dim index) const {
    auto varies = varying(stage_, index);
    double total = 1 + scan_steps(index) * combine_cost();
    for (const Expr& e : stage_.exprs)
      if (e.kind == Expr::Kind::load)
        total += access_cost(offset(e.buffer, e.index), index, varies, true);
    for (const Store& s : stage_.stores) {
      double cost = access_cost(offset(s.buffer, s.index), index, varies, false);
      bool scattered = cost >= kGather || cost == kUniform;
      bool updates = s.mode != Store::Mode::set;
      bool reads_lane = varies[static_cast<std::size_t>(s.value)] || cost > kUniform;
      if (!reads_lane) continue;  // runs outside the vector loop
      total += updates && (scattered || s.shared) ? kLaneByLane : 1.5 * cost;
    }
    return total * waste(*index.extent());
  }
  // The same elements one at a time.
  double scalar() const {
    double accesses = 1;
    for (const Expr& e : stage_.exprs) accesses += e.kind == Expr::Kind::load;
    accesses += static_cast<double>(stage_.stores.size());
    return (accesses + combine_cost()) * lanes_;
  }

 private:
  Dim offset(int buffer, const std::vector<Dim>& index) const {
    return loop::linear_offset(kernel_.buffers[static_cast<std::size_t>(buffer)], index);
  }
  // Of a scan; elsewhere all plans fold each element once.
  double combine_cost() const {
    if (!is_scan(stage_)) return 0;
    double cost = 0;
    for (const Expr& e : stage_.reduction->combine.exprs)
      if (e.kind == Expr::Kind::prim) cost += loop::is_exact(e.prim) ? 1 : kMathCost;
    return cost;
  }
  // Merges of a vector if its lanes are elements of the scan, each with its shuffle.
  double scan_steps(Dim index) const {
    if (!is_scan(stage_) || stage_.reduce.back().index != index) return 1;
    return 2 * (std::bit_width(static_cast<unsigned>(lanes_)) + 1);
  }
  // Unused lanes of short loops, if the extent is constant in the kernel.
  double waste(Dim extent) const {
    auto n = extent.as_const();
    if (!n || *n <= 0) return 1;
    auto vectors = static_cast<double>((*n + lanes_ - 1) / lanes_);
    return vectors * lanes_ / static_cast<double>(*n);
  }
  const Kernel& kernel_;
  const Stage& stage_;
  int lanes_;
};

bool loads_written_buffer(const Kernel& kernel, const Stage& stage) {
  return std::ranges::any_of(stage.exprs, [&](const Expr& e) {
    if (e.kind != Expr::Kind::load) return false;
    auto role = kernel.buffers[static_cast<std::size_t>(e.buffer)].role;
    return role == Buffer::Role::out || role == Buffer::Role::inout;
  });
}

bool has_ordered_store(const Stage& stage) {
  return std::ranges::any_of(stage.stores, [](const Store& s) { return s.ordered; });
}

// A single primitive per accumulator: partial sums are cheap, so several vectors of them hide the
// latency of the addition.
bool is_simple(const loop::Reduction& reduction) {
  return reduction.accumulators.size() <= 4 &&
         std::ranges::all_of(reduction.combine.results, [&](ExprId r) {
           const auto& exprs = reduction.combine.exprs;
           const Expr& e = exprs[static_cast<std::size_t>(r)];
           return e.kind == Expr::Kind::prim && std::ranges::all_of(e.args, [&](ExprId a) {
                    auto kind = exprs[static_cast<std::size_t>(a)].kind;
                    return kind == Expr::Kind::lhs || kind == Expr::Kind::rhs;
                  });
         });
}

// The error of a block grows with its length: equal numbers are rounded the same way in all of
// them. Merging a plain sum takes some ten instructions, shared by the partials; merging the state
// of a softmax or a variance takes an exponential or a division in f64. For accumulators of f64,
// merging rounds as well, so blocks should not be many.
std::int64_t block_steps(const Stage& stage, int partials) {
  if (!stage.reduction || is_scan(stage) || !loop::rounds(*stage.reduction)) return 0;
  const loop::Reduction& reduction = *stage.reduction;
  bool wide = std::ranges::any_of(reduction.accumulators,
                                  [](const auto& a) { return a.dtype == DType::f64; });
  if (wide || !is_simple(reduction)) return 64;
  return partials > 1 ? 8 : 16;
}

// Vectorising loop `l` moves it inside the domain loops that follow it: no store may depend on it
// but not on those, or it would run more often.
bool may_move_inside(const Stage& stage, std::size_t l) {
  if (l + 1 == stage.domain.size()) return true;
  std::vector<std::vector<bool>> varies;
  for (std::size_t d = l; d < stage.domain.size(); ++d)
    varies.push_back(varying(stage, stage.domain[d].index));
  return std::ranges::all_of(stage.stores, [&](const Store& s) {
    auto depends = [&](std::size_t d) {
      Dim index = stage.domain[l + d].index;
      bool result = varies[d][static_cast<std::size_t>(s.value)] ||
                    (s.pred != loop::kNoExpr && varies[d][static_cast<std::size_t>(s.pred)]);
      for (Dim i : s.index)
        result = result || i.depends_on(index) || reads_varying_value(i, varies[d]);
      return result;
    };
    if (!depends(0)) return true;
    for (std::size_t d = 1; d < varies.size(); ++d)
      if (!depends(d)) return false;
    return true;
  });
}

struct Choice {
  StagePlan plan;
  double cost = 0;
};

Choice choose_stage(const Kernel& kernel, const Stage& stage, int lanes) {
  StageCosts costs(kernel, stage, lanes);
  Choice best{{}, costs.scalar()};
  best.plan.block_steps = block_steps(stage, best.plan.partials);
  bool ordered = has_ordered_store(stage);
  if (ordered && (loads_written_buffer(kernel, stage) || stage.stores.size() > 1)) return best;
  auto consider = [&](int loop, Dim index) {
    double cost = costs.along(index);
    if (cost < best.cost) best = {{.vector_loop = loop}, cost};
  };
  int domains = static_cast<int>(stage.domain.size());
  int loops = domains + static_cast<int>(stage.reduce.size());
  // Lanes of a scan over several axes would not be successive elements.
  bool reduces_by_lanes = !is_scan(stage) || stage.reduce.size() == 1;
  // Innermost first: among equally good loops the innermost wins. Vectorising any other loop would
  // change the order of ordered stores.
  for (int l = loops; l-- > 0;) {
    if (l >= domains) {
      if (reduces_by_lanes) consider(l, stage.reduce[static_cast<std::size_t>(l - domains)].index);
    } else if (may_move_inside(stage, static_cast<std::size_t>(l)) &&
               (!ordered || (l == domains - 1 && loops == domains))) {
      consider(l, stage.domain[static_cast<std::size_t>(l)].index);
    }
    if (ordered) break;
  }
  if (best.plan.vector_loop >= domains && !is_scan(stage) && is_simple(*stage.reduction))
    best.plan.partials = stage.reduction->accumulators.size() <= 2 ? 4 : 2;
  best.plan.block_steps = block_steps(stage, best.plan.partials);
  return best;
}

// If lanes are grid points, each lane has its own locals: they must be small and not indexed by the
// lane.
bool locals_fit_lanes(const Kernel& kernel) {
  Dim last = kernel.grid.back().index;
  std::int64_t elements = 0;
  for (const Buffer& b : kernel.buffers) {
    if (b.role != Buffer::Role::local) continue;
    auto n = product(b.shape).as_const();
    if (!n) return false;
    elements += std::max<std::int64_t>(*n, 1);
  }
  if (elements > kMaxLaneLocals) return false;
  for (const Stage& stage : kernel.stages) {
    auto varies = varying(stage, last);
    auto by_lane = [&](int buffer, const std::vector<Dim>& index) {
      if (kernel.buffers[static_cast<std::size_t>(buffer)].role != Buffer::Role::local)
        return false;
      // Another stage may have stored a per-lane value in any local, so value symbols count.
      return std::ranges::any_of(index, [&](Dim d) {
        std::vector<Dim> symbols;
        d.collect_symbols(symbols);
        return d.depends_on(last) || std::ranges::any_of(symbols, [](Dim s) {
                 return loop::value_symbol_id(s).has_value();
               });
      });
    };
    for (const Expr& e : stage.exprs)
      if (e.kind == Expr::Kind::load && by_lane(e.buffer, e.index)) return false;
    for (const Store& s : stage.stores)
      if (by_lane(s.buffer, s.index) ||
          (s.mode != Store::Mode::set &&
           kernel.buffers[static_cast<std::size_t>(s.buffer)].role == Buffer::Role::local))
        return false;
  }
  return true;
}

// Neighbouring points must not observe each other's stores out of order.
bool order_allows_lanes(const Kernel& kernel) {
  if (!kernel.ordered()) return true;
  if (kernel.stages.size() != 1) return false;
  const Stage& stage = kernel.stages[0];
  return stage.domain.empty() && stage.reduce.empty() && stage.stores.size() == 1 &&
         !loads_written_buffer(kernel, stage);
}

// Loop extents must be the same for all lanes.
bool extents_are_uniform(const Kernel& kernel) {
  Dim last = kernel.grid.back().index;
  for (const Stage& stage : kernel.stages)
    for (const auto* loops : {&stage.domain, &stage.reduce})
      for (const Range& r : *loops)
        if (r.extent().depends_on(last)) return false;
  return true;
}

// A column reduction with a small body waits for memory and for its own additions: several vectors
// at a time overlap both, as long as their state fits the registers: one accumulator of 8 bytes, or
// narrow ones. Rows that don't fill so many get fewer.
int vectors_for(const Kernel& kernel, int lanes) {
  constexpr std::size_t kSmall = 12;
  bool reduces = false;
  for (const Stage& stage : kernel.stages) {
    reduces = reduces || !stage.reduce.empty();
    if (stage.exprs.size() > kSmall) return 1;
    for (const Expr& e : stage.exprs)
      if (e.kind == Expr::Kind::prim && !loop::is_exact(e.prim)) return 1;
    if (!stage.reduction) continue;
    if (stage.reduction->combine.exprs.size() > kSmall) return 1;
    const auto& states = stage.reduction->accumulators;
    if (states.size() > 1 &&
        std::ranges::any_of(states, [](const auto& a) { return size_of(a.dtype) > 4; }))
      return 1;
  }
  if (!reduces) return 1;
  int vectors = 4;
  if (const auto width = kernel.grid.back().extent().as_const()) {
    const auto computed = [&](std::int64_t step) { return (*width + step - 1) / step * step; };
    while (vectors > 1 && computed(vectors * lanes) > computed(lanes) * 9 / 8) vectors /= 2;
  }
  return vectors;
}

// Whether some load selects elements from whole vectors, for which a mask of lanes has to be
// spread over those vectors.
bool picks_elements(const Kernel& kernel) {
  Dim lane = kernel.grid.back().index;
  return std::ranges::any_of(kernel.stages, [&](const Stage& stage) {
    return std::ranges::any_of(stage.exprs, [&](const Expr& e) {
      if (e.kind != Expr::Kind::load) return false;
      const Buffer& buffer = kernel.buffers[static_cast<std::size_t>(e.buffer)];
      const auto parts = affine_in(loop::linear_offset(buffer, e.index), lane);
      const auto step = parts ? parts->coefficient.as_const() : std::nullopt;
      return step && *step > 1 && *step <= kMaxVectorStep;
    });
  });
}

bool transposes(const Kernel& kernel) {
  if (kernel.ordered()) return false;
  return std::ranges::any_of(kernel.stages, [&](const Stage& stage) {
    const auto stores_across = [&](const Store& s) {
      return loop::is_across(kernel, s.buffer, s.index);
    };
    const auto loads_across = [&](const Expr& e) {
      return e.kind == Expr::Kind::load && loop::is_across(kernel, e.buffer, e.index);
    };
    return std::ranges::any_of(stage.exprs, loads_across) ||
           std::ranges::any_of(stage.stores, stores_across);
  });
}

}  // namespace

KernelPlan make_plan(const Kernel& kernel, int lanes) {
  KernelPlan points;
  double by_stage = 0;
  double by_point = std::numeric_limits<double>::infinity();
  for (const Stage& stage : kernel.stages) {
    Choice c = choose_stage(kernel, stage, lanes);
    points.stages.push_back(c.plan);
    by_stage += c.cost * (stage.domain.empty() && stage.reduce.empty() ? 1 : kLoopWeight);
  }
  if (!kernel.grid.empty() && locals_fit_lanes(kernel) && order_allows_lanes(kernel) &&
      extents_are_uniform(kernel)) {
    by_point = 0;
    for (const Stage& stage : kernel.stages)
      by_point += StageCosts(kernel, stage, lanes).along(kernel.grid.back().index) *
                  (stage.domain.empty() && stage.reduce.empty() ? 1 : kLoopWeight);
  }
  if (by_stage <= by_point) return points;
  KernelPlan plan;
  plan.lanes_are_points = true;
  plan.vectors = vectors_for(kernel, lanes);
  plan.tiled = transposes(kernel);
  plan.picks_elements = picks_elements(kernel);
  for (const Stage& stage : kernel.stages)
    plan.stages.push_back({.block_steps = block_steps(stage, 1)});
  return plan;
}

}  // namespace gex::codegen
