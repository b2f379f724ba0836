#include "backend/cpu/llvm/stage.hpp"

#include <algorithm>

#include "backend/cpu/llvm/math.hpp"
#include "backend/cpu/llvm/prims.hpp"
#include "base/error.hpp"
#include "loop/combines.hpp"
#include "loop/walk.hpp"

namespace gex::codegen {

using llvm::Value;
using loop::Buffer;
using loop::Expr;
using loop::ExprId;
using loop::Store;

int code_size(const loop::Stage& stage) {
  int size = 0;
  for (const Expr& e : stage.exprs)
    if (e.kind == Expr::Kind::prim) size += is_math(e.prim) ? 25 : 1;
  return size;
}

StageEmitter::StageEmitter(Scope& scope, Memory& memory, const loop::Kernel& kernel,
                           const loop::Stage& stage, const StagePlan& plan, bool lanes_are_points,
                           const loop::StageLines* lines)
    : scope_(scope),
      ir_(scope.ir),
      memory_(memory),
      kernel_(kernel),
      stage_(stage),
      plan_(plan),
      lines_(lines),
      lanes_are_points_(lanes_are_points),
      scan_(stage.reduction && stage.reduction->scan),
      tail_(code_size(stage) > kMergedTailSize ? Tail::merged : Tail::separate),
      base_(scope.level()),
      values_(stage.exprs.size()),
      splats_(stage.exprs.size()) {
  scope_.values = this;
  scope_.values_level = base_;
  order_loops();
  place_expressions();
  if (plan_.block_steps > 0) wide_combine_ = loop::widened(stage_.reduction->combine);
  merges_blocks_ = may_fill_a_block();
}

StageEmitter::~StageEmitter() {
  scope_.values = nullptr;
  if (!lanes_are_points_) {
    scope_.lane_index.reset();
    scope_.lanes = 1;
  }
}

// Domain loops outside, reduce loops inside; the vector loop innermost of its kind.
void StageEmitter::order_loops() {
  int position = 0;
  auto append = [&](const std::vector<loop::Range>& ranges, bool reduces) {
    std::optional<Loop> last;
    for (const auto& r : ranges) {
      Loop l{r.index, reduces, position++ == plan_.vector_loop};
      if (l.lanes)
        last = l;
      else
        loops_.push_back(l);
    }
    if (last) loops_.push_back(*last);
  };
  append(stage_.domain, false);
  domains_ = loops_.size();
  append(stage_.reduce, true);
  for (std::size_t d = 0; d < loops_.size(); ++d) {
    const Loop& l = loops_[d];
    scope_.declare(l.index, {base_ + 1 + static_cast<int>(d), l.lanes});
    if (!l.lanes) continue;
    lanes_reduce_ = l.reduces;
    scope_.lane_index = l.index;
    scope_.lanes = ir_.target.lanes();
  }
}

void StageEmitter::place_expressions() {
  for (const Expr& e : stage_.exprs) {
    Placed p;
    p.after = e.kind == Expr::Kind::acc;
    placed_.push_back(p);  // value symbols of earlier expressions are looked up in it
    loop::for_each_operand(e, [&](ExprId a) {
      p.place = join(p.place, placed_[at(a)].place);
      p.after = p.after || placed_[at(a)].after;
    });
    loop::for_each_dim(e, [&](Dim d) { p.place = join(p.place, scope_.place(d)); });
    if (e.kind == Expr::Kind::load) {
      // What other stages or points write must not be read before the point starts.
      if (kernel_.buffers[at(e.buffer)].role != Buffer::Role::in)
        p.place = join(p.place, {base_, false});
      if (memory_.is_lane_local(e.buffer)) p.place.varying = true;
    }
    placed_.back() = p;
  }
}

Place StageEmitter::place_of(ExprId id) {
  const Placed& p = placed_[at(id)];
  if (!p.after) return p.place;
  int level = base_ + static_cast<int>(in_element_ ? loops_.size() : domains_);
  bool varying = scope_.lanes > 1 && (!lanes_reduce_ || in_element_);
  return join(p.place, {level, varying});
}

Value* StageEmitter::value_of(ExprId id) {
  Value*& known = values_[at(id)];
  if (known) return known;
  Place p = place_of(id);
  Value* v = scope_.at(p.level, [&] {
    const AtLine line(ir_, line_of(id));
    return emit(stage_.exprs[at(id)], p.varying);
  });
  return values_[at(id)] = v;
}

// The value as a scalar or vector as requested; a uniform value is broadcast at its own level.
Value* StageEmitter::lane_value(ExprId id, bool varying) {
  Value* v = value_of(id);
  if (!varying || Ir::width(v) > 1 || scope_.lanes == 1) return v;
  Value*& known = splats_[at(id)];
  if (!known) known = scope_.at(place_of(id).level, [&] { return ir_.splat(v, scope_.lanes); });
  return known;
}

void StageEmitter::forget(int level) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i] && place_of(static_cast<ExprId>(i)).level >= level)
      values_[i] = splats_[i] = nullptr;
  }
}

Value* StageEmitter::emit(const Expr& e, bool varying) {
  switch (e.kind) {
    case Expr::Kind::constant:
      return emit_constant(ir_, e.dtype, e.imm, e.imm_int);
    case Expr::Kind::index:
      return varying ? scope_.vector(e.dim) : scope_.scalar(e.dim);
    case Expr::Kind::load: {
      Value* pred = e.pred == loop::kNoExpr ? nullptr : value_of(e.pred);
      Value* fill = pred ? value_of(e.fill) : nullptr;
      return memory_.load(e.buffer, offset(e.buffer, e.index), pred, fill, varying);
    }
    case Expr::Kind::prim: {
      std::vector<Value*> args;
      for (ExprId a : e.args) args.push_back(lane_value(a, varying));
      DType operand = stage_.exprs[at(e.args.back())].dtype;
      return emit_prim(ir_, e.prim, operand, args);
    }
    case Expr::Kind::cast:
      return emit_cast(ir_, lane_value(e.args[0], varying), stage_.exprs[at(e.args[0])].dtype,
                       e.dtype);
    case Expr::Kind::acc:
      return accumulator(static_cast<std::size_t>(e.slot), e.dtype);
    case Expr::Kind::lhs:
    case Expr::Kind::rhs:
      break;
  }
  GEX_CHECK(false, "a combine operand outside of a combine body");
  return nullptr;
}

Dim StageEmitter::offset(int buffer, const std::vector<Dim>& index) const {
  return loop::linear_offset(kernel_.buffers[at(buffer)], index);
}

void StageEmitter::run() {
  const AtLine line(ir_, lines_ ? lines_->stage : 0);
  run_loops(0);
}

void StageEmitter::run_loops(std::size_t depth) {
  int level = scope_.level();
  bool folds = stage_.reduction.has_value();
  if (folds && depth == domains_) start_accumulators();
  if (depth < loops_.size()) {
    run_loop(depth);
  } else if (folds) {
    auto stores = prepare_stores(level, false);
    fold_element();
    commit(stores);
    if (scan_) {
      in_element_ = true;
      commit(prepare_stores(level, true));
      forget(level);
      in_element_ = false;
      if (scans_lanes()) accumulators_ = after_vector_;
    }
  }
  if (folds && depth > domains_) return;  // element stores are done, all others come later
  if (folds && depth == domains_) finish_accumulators();
  auto stores = prepare_stores(level, false);
  auto later = prepare_stores(level, true);
  commit(stores);
  commit(later);
}

void StageEmitter::run_loop(std::size_t depth) {
  const Loop& loop = loops_[depth];
  Value* extent = scope_.scalar(*loop.index.extent());
  Carried none;
  Carried& carried = loop.reduces ? accumulators_ : none;
  // The innermost loop is split into blocks.
  std::optional<Blocks> blocks;
  if (loop.reduces && depth + 1 == loops_.size() && merges_blocks_) {
    if (counts_steps()) count_steps(extent);
    blocks = {block_size(), [&] { merge_block(); }};
  }
  const Blocks* cut = blocks ? &*blocks : nullptr;
  auto body = [&] {
    run_loops(depth + 1);
    forget(scope_.level());
  };
  if (loop.lanes) {
    emit_vector_loop(scope_, loop.index, ir_.i64(0), extent, tail_, carried, body, cut);
  } else {
    emit_loop(
        scope_, ir_.i64(0), extent, 1, carried,
        [&](Value* i) {
          scope_.bind(loop.index, i);
          body();
        },
        cut);
  }
}

// --- stores ---

// The level of a store. One that uses a reduce index runs at each element.
Place StageEmitter::store_place(const Store& store) {
  Place p{base_, lanes_are_points_};
  auto use = [&](ExprId id) { p = join(p, placed_[at(id)].place); };
  use(store.value);
  if (store.pred != loop::kNoExpr) use(store.pred);
  std::vector<Dim> symbols;
  for (Dim d : store.index) d.collect_symbols(symbols);
  for (Dim s : symbols) {
    if (auto id = loop::value_symbol_id(s))
      use(*id);
    else
      p = join(p, scope_.place(s));
  }
  if (p.level > base_ + static_cast<int>(domains_)) {
    p.level = base_ + static_cast<int>(loops_.size());
    return {p.level, p.varying || scope_.lanes > 1};
  }
  if (reads_accumulator(store))
    p = join(p, {base_ + static_cast<int>(domains_), scope_.lanes > 1 && !lanes_reduce_});
  return p;
}

bool StageEmitter::reads_accumulator(const Store& store) const {
  if (placed_[at(store.value)].after) return true;
  if (store.pred != loop::kNoExpr && placed_[at(store.pred)].after) return true;
  std::vector<Dim> symbols;
  for (Dim d : store.index) d.collect_symbols(symbols);
  return std::ranges::any_of(symbols, [&](Dim s) {
    auto id = loop::value_symbol_id(s);
    return id && placed_[at(*id)].after;
  });
}

// The stores that run at this level: those that read accumulators (`after`) or those that do not.
std::vector<Memory::Pending> StageEmitter::prepare_stores(int level, bool after) {
  std::vector<Memory::Pending> pending;
  for (const Store& s : stage_.stores) {
    Place p = store_place(s);
    if (p.level != level || reads_accumulator(s) != after) continue;
    const AtLine line(ir_, line_of(s));
    Value* pred = s.pred == loop::kNoExpr ? nullptr : value_of(s.pred);
    pending.push_back(
        memory_.prepare(s, offset(s.buffer, s.index), value_of(s.value), pred, p.varying));
  }
  return pending;
}

void StageEmitter::commit(const std::vector<Memory::Pending>& stores) {
  for (const Memory::Pending& pending : stores) {
    const AtLine line(ir_, line_of(*pending.store));
    memory_.commit(pending);
  }
}

}  // namespace gex::codegen
