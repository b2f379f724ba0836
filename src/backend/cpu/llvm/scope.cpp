#include "backend/cpu/llvm/scope.hpp"

#include <algorithm>

#include "backend/cpu/llvm/prims.hpp"
#include "base/error.hpp"

namespace gex::codegen {

using llvm::Value;

namespace {

bool has_value_symbol(Dim d) {
  std::vector<Dim> symbols;
  d.collect_symbols(symbols);
  return std::ranges::any_of(symbols, [](Dim s) { return loop::value_symbol_id(s).has_value(); });
}

}  // namespace

Scope::Scope(Ir& ir_in, Value* dims, std::vector<Dim> symbols)
    : ir(ir_in), levels_(1), dims_(dims), symbols_(std::move(symbols)) {}

llvm::Instruction* Scope::anchor_of(int level) const {
  // A level without an anchor is emitted directly before the next one.
  for (auto l = static_cast<std::size_t>(level); l < levels_.size(); ++l)
    if (levels_[l].anchor) return levels_[l].anchor;
  return nullptr;
}

bool Scope::may_remember(Dim d, int level) const {
  return level > values_level || !has_value_symbol(d);
}

Place Scope::place(Dim d) {
  std::vector<Dim> symbols;
  d.collect_symbols(symbols);
  Place result;
  for (Dim s : symbols) {
    if (auto id = loop::value_symbol_id(s)) {
      result = join(result, values->place_of(*id));
    } else if (s.extent()) {
      auto at = places_.find(s);
      GEX_CHECK(at != places_.end(), "index ", s, " is not in scope");
      result = join(result, at->second);
    }
  }
  return result;
}

Value* Scope::scalar(Dim d) {
  if (auto c = d.as_const()) return ir.i64(*c);
  Place p = place(d);
  GEX_CHECK(!p.varying, d, " differs between lanes");
  auto& known = levels_[static_cast<std::size_t>(p.level)].scalars;
  if (auto at = known.find(d); at != known.end()) return at->second;
  Value* v = at(p.level, [&] { return emit_scalar(d); });
  if (may_remember(d, p.level)) levels_[static_cast<std::size_t>(p.level)].scalars[d] = v;
  return v;
}

Value* Scope::vector(Dim d) {
  Place p = place(d);
  auto level = static_cast<std::size_t>(p.level);
  if (auto at = levels_[level].vectors.find(d); at != levels_[level].vectors.end())
    return at->second;
  Value* v = at(p.level, [&] { return p.varying ? emit_vector(d) : ir.splat(scalar(d), lanes); });
  if (may_remember(d, p.level)) levels_[level].vectors[d] = v;
  return v;
}

// Adds summands (or factors) from the outermost level inwards, so that partial results are hoisted.
Value* Scope::sum(Dim d) {
  std::vector<Dim> parts(d.operands().begin(), d.operands().end());
  std::ranges::stable_sort(parts, {}, [&](Dim p) { return place(p).level; });
  bool product = d.kind() == Dim::Kind::mul;
  Value* total = nullptr;
  int level = 0;
  for (Dim p : parts) {
    Value* v = scalar(p);
    level = std::max(level, place(p).level);
    total = !total ? v : at(level, [&] {
      return product ? ir.b.CreateMul(total, v) : ir.b.CreateAdd(total, v);
    });
  }
  return total;
}

Value* Scope::divide(Dim d) {
  bool quotient = d.kind() == Dim::Kind::floordiv;
  Value* a = scalar(d.operands()[0]);
  Value* b = scalar(d.operands()[1]);
  auto divisor = d.operands()[1].as_const();
  if (provably_nonnegative(d.operands()[0]) && d.operands()[1].range().lo >= 0) {
    // A size may be 0 in code that runs no point.
    if (!divisor) {
      Value* none = ir.b.CreateICmpEQ(b, ir.i64(0));
      b = ir.b.CreateSelect(none, ir.i64(1), b);
    }
    return quotient ? ir.b.CreateUDiv(a, b) : ir.b.CreateURem(a, b);
  }
  return quotient ? floor_divide(ir, a, b) : floor_remainder(ir, a, b);
}

Value* Scope::emit_scalar(Dim d) {
  switch (d.kind()) {
    case Dim::Kind::constant:
      return ir.i64(d.constant());
    case Dim::Kind::symbol: {
      if (auto id = loop::value_symbol_id(d)) return values->value_of(*id);
      if (d.extent()) {
        auto at = indices_.find(d);
        GEX_CHECK(at != indices_.end(), "index ", d, " has no value yet");
        return at->second;
      }
      auto position = std::ranges::find(symbols_, d);
      GEX_CHECK(position != symbols_.end(), "size ", d, " is not an argument");
      Value* address = ir.b.CreateConstGEP1_64(
          ir.b.getInt64Ty(), dims_, static_cast<std::uint64_t>(position - symbols_.begin()));
      return ir.b.CreateLoad(ir.b.getInt64Ty(), address, d.name());
    }
    case Dim::Kind::add:
    case Dim::Kind::mul:
      return sum(d);
    case Dim::Kind::floordiv:
    case Dim::Kind::mod:
      return divide(d);
    case Dim::Kind::min:
    case Dim::Kind::max: {
      auto id = d.kind() == Dim::Kind::min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax;
      return ir.b.CreateBinaryIntrinsic(id, scalar(d.operands()[0]), scalar(d.operands()[1]));
    }
  }
  return nullptr;
}

// Integers below 2^53 divide exactly in f64 when the result is rounded down, and vectors of i64
// have no division. Indices and sizes are that small; loaded values may not be.
Value* Scope::divide_lanes(Dim d) {
  bool quotient = d.kind() == Dim::Kind::floordiv;
  Value* a = vector(d.operands()[0]);
  Value* b = vector(d.operands()[1]);
  if (has_value_symbol(d)) return quotient ? floor_divide(ir, a, b) : floor_remainder(ir, a, b);
  llvm::IRBuilderBase::FastMathFlagGuard exact(ir.b);
  ir.b.clearFastMathFlags();
  llvm::Type* f64 = Ir::like(a, ir.b.getDoubleTy());
  Value* ratio = ir.b.CreateFDiv(ir.b.CreateSIToFP(a, f64), ir.b.CreateSIToFP(b, f64));
  Value* whole = ir.unary(llvm::Intrinsic::floor, ratio);
  Value* q = ir.b.CreateFPToSI(whole, a->getType());
  return quotient ? q : ir.b.CreateSub(a, ir.b.CreateMul(q, b));
}

Value* Scope::emit_vector(Dim d) {
  if (lane_index) {
    auto parts = affine_in(d, *lane_index);
    if (parts && !place(parts->rest).varying && !place(parts->coefficient).varying) {
      Value* step = vector(parts->coefficient);
      Value* offsets = ir.b.CreateMul(step, ir.iota(lanes));
      Value* first = scalar(parts->rest);
      Value* moved = ir.b.CreateMul(scalar(parts->coefficient), lane_0());
      return ir.b.CreateAdd(ir.splat(ir.b.CreateAdd(first, moved), lanes), offsets);
    }
  }
  auto operands = d.operands();
  switch (d.kind()) {
    case Dim::Kind::symbol:
      return ir.splat(values->value_of(*loop::value_symbol_id(d)), lanes);
    case Dim::Kind::add:
    case Dim::Kind::mul: {
      bool product = d.kind() == Dim::Kind::mul;
      Dim uniform = product ? Dim(1) : Dim(0);
      Value* total = nullptr;
      for (Dim p : operands) {
        if (!place(p).varying) {
          uniform = product ? uniform * p : uniform + p;
          continue;
        }
        Value* v = vector(p);
        total = !total ? v : product ? ir.b.CreateMul(total, v) : ir.b.CreateAdd(total, v);
      }
      Value* u = vector(uniform);
      return product ? ir.b.CreateMul(total, u) : ir.b.CreateAdd(total, u);
    }
    case Dim::Kind::floordiv:
    case Dim::Kind::mod:
      return divide_lanes(d);
    case Dim::Kind::min:
    case Dim::Kind::max: {
      auto id = d.kind() == Dim::Kind::min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax;
      return ir.b.CreateBinaryIntrinsic(id, vector(operands[0]), vector(operands[1]));
    }
    case Dim::Kind::constant:
      break;
  }
  GEX_CHECK(false, "no vector form of ", d);
  return nullptr;
}

}  // namespace gex::codegen
