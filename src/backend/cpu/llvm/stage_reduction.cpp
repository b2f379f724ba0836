// The reduction of a stage: vectors of partial accumulators used in rotation, blocks merged into
// f64 accumulators, one fixed tree at the end; or a scan, by vectors of prefixes.

#include <algorithm>

#include "backend/cpu/llvm/prims.hpp"
#include "backend/cpu/llvm/stage.hpp"
#include "base/error.hpp"
#include "loop/combines.hpp"

namespace gex::codegen {

using llvm::Value;
using loop::Expr;
using loop::ExprId;

void StageEmitter::start_accumulators() {
  const AtLine line(ir_, line_of_combine());
  accumulators_.clear();
  const auto& states = stage_.reduction->accumulators;
  auto append = [&](bool wide) {
    for (const auto& a : states) {
      DType dtype = wide ? loop::widened(a.dtype) : a.dtype;
      Value* init = emit_constant(ir_, dtype, a.init, a.init_int);
      accumulators_.push_back(ir_.splat(init, scope_.lanes));
    }
  };
  for (int p = 0; p < plan_.partials; ++p) append(false);
  if (!merges_blocks_) return;
  append(true);
  accumulators_.push_back(ir_.b.getFalse());
  if (counts_steps()) accumulators_.push_back(ir_.i64(0));
}

std::size_t StageEmitter::num_partials() const {
  return static_cast<std::size_t>(plan_.partials) * num_accumulators();
}

Carried StageEmitter::combine(const loop::Combine& body, llvm::ArrayRef<Value*> left,
                              llvm::ArrayRef<Value*> right) {
  int width = Ir::width(left[0]);
  std::vector<Value*> values;
  for (const Expr& e : body.exprs) {
    auto arg = [&](std::size_t k) { return values[at(e.args[k])]; };
    switch (e.kind) {
      case Expr::Kind::lhs:
        values.push_back(left[static_cast<std::size_t>(e.slot)]);
        break;
      case Expr::Kind::rhs:
        values.push_back(right[static_cast<std::size_t>(e.slot)]);
        break;
      case Expr::Kind::constant:
        values.push_back(ir_.splat(emit_constant(ir_, e.dtype, e.imm, e.imm_int), width));
        break;
      case Expr::Kind::cast:
        values.push_back(emit_cast(ir_, arg(0), body.exprs[at(e.args[0])].dtype, e.dtype));
        break;
      case Expr::Kind::prim: {
        std::vector<Value*> args;
        for (std::size_t k = 0; k < e.args.size(); ++k) args.push_back(arg(k));
        values.push_back(emit_prim(ir_, e.prim, body.exprs[at(e.args.back())].dtype, args));
        break;
      }
      default:
        GEX_CHECK(false, "only scalar expressions are allowed in a combine body");
    }
  }
  Carried result;
  for (ExprId r : body.results) result.push_back(values[at(r)]);
  return result;
}

Carried StageEmitter::elements() {
  Carried result;
  for (ExprId e : stage_.reduction->elements) result.push_back(lane_value(e, scope_.lanes > 1));
  return result;
}

// All prefixes of a vector in log2(lanes) steps, each of which merges every lane with the one
// `step` lanes before it. Only one merge waits for the previous vector.
void StageEmitter::scan_vector() {
  const loop::Combine& body = stage_.reduction->combine;
  const auto& states = stage_.reduction->accumulators;
  std::size_t n = num_accumulators();
  Carried prefix = elements(), last;
  // Lanes beyond the end change nothing.
  for (std::size_t k = 0; scope_.mask && k < n; ++k) {
    const auto& a = states[k];
    Value* start = ir_.splat(emit_constant(ir_, a.dtype, a.init, a.init_int), scope_.lanes);
    prefix[k] = ir_.b.CreateSelect(scope_.mask, prefix[k], start);
  }
  for (int step = 1; step < scope_.lanes; step *= 2) {
    // Lanes turn around and the first ones keep their value: with zeros in their place LLVM would
    // move the others by an instruction that is slow on some processors (vexpandpd).
    std::vector<int> lanes;
    std::vector<llvm::Constant*> merged;
    for (int l = 0; l < scope_.lanes; ++l) {
      lanes.push_back((l - step + scope_.lanes) % scope_.lanes);
      merged.push_back(ir_.b.getInt1(l >= step));
    }
    Carried before;
    for (Value* v : prefix) before.push_back(ir_.b.CreateShuffleVector(v, lanes));
    const Carried both = combine(body, before, prefix);
    for (std::size_t k = 0; k < n; ++k)
      prefix[k] = ir_.b.CreateSelect(llvm::ConstantVector::get(merged), both[k], prefix[k]);
  }
  const std::vector<int> final_lane(static_cast<std::size_t>(scope_.lanes), scope_.lanes - 1);
  for (Value* v : prefix) last.push_back(ir_.b.CreateShuffleVector(v, final_lane));
  after_vector_ = combine(body, accumulators_, last);
  accumulators_ = combine(body, accumulators_, prefix);
}

void StageEmitter::fold_element() {
  const AtLine line(ir_, line_of_combine());
  if (scans_lanes()) return scan_vector();
  const auto& reduction = *stage_.reduction;
  std::size_t n = num_accumulators();
  Carried element = elements();
  Carried oldest(accumulators_.begin(), accumulators_.begin() + static_cast<std::ptrdiff_t>(n));
  Carried folded = combine(reduction.combine, oldest, element);
  // Lanes beyond the end keep their value. (If lanes are points, they are just not stored.)
  if (lanes_reduce_ && scope_.mask)
    for (std::size_t k = 0; k < n; ++k)
      folded[k] = ir_.b.CreateSelect(scope_.mask, folded[k], oldest[k]);
  // The partials rotate, so that no addition waits for the previous one.
  std::ranges::copy(folded, accumulators_.begin());
  auto first = accumulators_.begin();
  std::rotate(first, first + static_cast<std::ptrdiff_t>(n),
              first + static_cast<std::ptrdiff_t>(num_partials()));
}

// --- blocks ---

std::int64_t StageEmitter::block_size() const {
  return block_steps() * (lanes_reduce_ ? scope_.lanes : 1);
}

// Whether any call can reach the end of a block. Exact for constant sizes, so static code omits
// only what generic code would never run.
bool StageEmitter::may_fill_a_block() const {
  if (plan_.block_steps == 0) return false;
  auto inner = loops_.back().index.extent()->as_const();
  if (!inner || *inner > block_size()) return true;
  std::int64_t steps_of_run = *inner / (lanes_reduce_ ? scope_.lanes : 1) + 1;
  std::int64_t runs = 1;
  for (std::size_t d = domains_; d + 1 < loops_.size(); ++d) {
    auto extent = loops_[d].index.extent()->as_const();
    if (!extent || *extent > block_steps()) return true;
    runs *= std::max<std::int64_t>(*extent, 1);
    if ((runs - 1) * steps_of_run >= block_steps()) return true;
  }
  return false;
}

// In nested reduce loops the innermost one may be short: its steps are counted across runs, and the
// block is merged before the first run that starts with a full one.
void StageEmitter::count_steps(Value* extent) {
  Value* full = ir_.b.CreateICmpSGE(accumulators_.back(), ir_.i64(block_steps()));
  emit_if(scope_, full, accumulators_, [&] {
    merge_block();
    accumulators_.back() = ir_.i64(0);
  });
  Value* vectors = ir_.b.CreateSDiv(extent, ir_.i64(lanes_reduce_ ? scope_.lanes : 1));
  Value* steps = ir_.b.CreateAdd(vectors, ir_.i64(1));
  accumulators_.back() = ir_.b.CreateAdd(accumulators_.back(), steps);
}

void StageEmitter::merge_block() {
  const AtLine line(ir_, line_of_combine());
  const auto& states = stage_.reduction->accumulators;
  std::size_t n = states.size(), wide = num_partials();
  Carried merged = combine(wide_combine_, llvm::ArrayRef<Value*>(accumulators_).slice(wide, n),
                           widen(merge_partials()));
  std::ranges::copy(merged, accumulators_.begin() + static_cast<std::ptrdiff_t>(wide));
  accumulators_[wide + n] = ir_.b.getTrue();
  for (std::size_t k = 0; k < wide; ++k) {
    const auto& a = states[k % n];
    Value* init = emit_constant(ir_, a.dtype, a.init, a.init_int);
    accumulators_[k] = ir_.splat(init, scope_.lanes);
  }
}

Carried StageEmitter::widen(const Carried& state) {
  Carried result;
  for (std::size_t k = 0; k < state.size(); ++k) {
    DType dtype = stage_.reduction->accumulators[k].dtype;
    result.push_back(emit_cast(ir_, state[k], dtype, loop::widened(dtype)));
  }
  return result;
}

// --- the end of a fold ---

Carried StageEmitter::merge_partials() {
  std::size_t n = num_accumulators();
  Carried state(accumulators_.begin(),
                accumulators_.begin() + static_cast<std::ptrdiff_t>(num_partials()));
  auto part = [&](std::size_t p) { return llvm::ArrayRef<Value*>(state).slice(p * n, n); };
  while (state.size() > n) {
    Carried halved;
    for (std::size_t p = 0; p + 1 < state.size() / n; p += 2) {
      Carried merged = combine(stage_.reduction->combine, part(p), part(p + 1));
      halved.insert(halved.end(), merged.begin(), merged.end());
    }
    state = halved;
  }
  return state;
}

Carried StageEmitter::merge_lanes(const loop::Combine& body, Carried state) {
  for (int width = Ir::width(state[0]); width > 1; width /= 2) {
    Carried low, high;
    std::vector<int> first, second;
    for (int l = 0; l < width / 2; ++l) {
      first.push_back(l);
      second.push_back(width / 2 + l);
    }
    for (Value* v : state) {
      auto pick = [&](const std::vector<int>& lanes) -> Value* {
        if (width == 2) return ir_.b.CreateExtractElement(v, static_cast<std::uint64_t>(lanes[0]));
        return ir_.b.CreateShuffleVector(v, lanes);
      };
      low.push_back(pick(first));
      high.push_back(pick(second));
    }
    state = combine(body, low, high);
  }
  return state;
}

// Partials and lanes are merged in one fixed tree; for a fold longer than a block in f64. A short
// fold is not, to cost nothing; for unknown sizes the two cases are distinguished at run time.
void StageEmitter::finish_accumulators() {
  const AtLine line(ir_, line_of_combine());
  unrounded_.clear();
  if (scans_lanes()) {
    for (Value*& v : accumulators_) v = ir_.b.CreateExtractElement(v, std::uint64_t{0});
    return;
  }
  Carried part = merge_partials();
  Carried block = lanes_reduce_ ? merge_lanes(stage_.reduction->combine, part) : part;
  if (!merges_blocks_) {
    accumulators_ = block;
    return;
  }
  std::size_t n = num_accumulators(), wide = num_partials();
  Value* long_fold = accumulators_[wide + n];
  Carried whole =
      combine(wide_combine_, llvm::ArrayRef<Value*>(accumulators_).slice(wide, n), widen(part));
  if (lanes_reduce_) whole = merge_lanes(wide_combine_, whole);
  // Without lanes to merge, a fold of a single block keeps its value.
  auto choose = [&](Value* merged, Value* short_one) {
    return lanes_reduce_ ? ir_.b.CreateSelect(long_fold, merged, short_one) : merged;
  };
  unrounded_ = widen(block);
  for (std::size_t k = 0; k < n; ++k) {
    DType dtype = stage_.reduction->accumulators[k].dtype;
    Value* rounded = emit_cast(ir_, whole[k], loop::widened(dtype), dtype);
    unrounded_[k] = choose(whole[k], unrounded_[k]);
    block[k] = choose(rounded, block[k]);
  }
  accumulators_ = block;
}

Value* StageEmitter::accumulator(std::size_t slot, DType dtype) {
  DType held = stage_.reduction->accumulators[slot].dtype;
  if (dtype == held) return accumulators_[slot];
  return unrounded_.empty() ? emit_cast(ir_, accumulators_[slot], held, dtype) : unrounded_[slot];
}

}  // namespace gex::codegen
