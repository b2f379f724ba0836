#include "backend/cpu/llvm/loops.hpp"

#include <optional>

namespace gex::codegen {

using llvm::BasicBlock;
using llvm::Value;

namespace {

std::optional<std::int64_t> constant(Value* v) {
  auto* c = llvm::dyn_cast<llvm::ConstantInt>(v);
  return c ? std::optional<std::int64_t>(c->getSExtValue()) : std::nullopt;
}

BasicBlock* new_block(Ir& ir, const char* name) {
  return BasicBlock::Create(ir.b.getContext(), name, ir.b.GetInsertBlock()->getParent());
}

Value* lanes_below(Ir& ir, int lanes, Value* count) {
  // 32 bits are enough once the count is limited, and take half the registers.
  Value* limited = ir.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count, ir.i64(lanes));
  limited = ir.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limited, ir.i64(0));
  Value* narrow = ir.b.CreateTrunc(limited, ir.b.getInt32Ty());
  if (lanes == 1) return ir.b.CreateICmpSGT(narrow, ir.b.getInt32(0));
  Value* iota = ir.b.CreateTrunc(ir.iota(lanes), Ir::widened(ir.b.getInt32Ty(), lanes));
  return ir.b.CreateICmpULT(iota, ir.splat(narrow, lanes));
}

// Restores the first anchor of the current level while loops are emitted below it.
class Sealed {
 public:
  Sealed(Scope& scope, llvm::Instruction* anchor) : scope_(scope), mine_(!scope.is_sealed()) {
    if (mine_) scope_.seal(anchor);
  }
  ~Sealed() {
    if (mine_) scope_.unseal();
  }
  Sealed(const Sealed&) = delete;
  Sealed& operator=(const Sealed&) = delete;

 private:
  Scope& scope_;
  bool mine_;
};

void leave(Ir& ir, Carried& carried, const Carried& initial, BasicBlock* before, BasicBlock* end) {
  for (std::size_t c = 0; c < carried.size(); ++c) {
    auto* leaving = ir.b.CreatePHI(carried[c]->getType(), 2);
    leaving->addIncoming(initial[c], before);
    leaving->addIncoming(carried[c], end);
    carried[c] = leaving;
  }
}

// The loop itself, without opening a scope level.
void emit_skeleton(Scope& scope, const char* name, Value* lo, Value* hi, std::int64_t step,
                   Carried& carried, const std::function<void(Value* i)>& body) {
  Ir& ir = scope.ir;
  BasicBlock* before = ir.b.GetInsertBlock();
  BasicBlock* inside = new_block(ir, name);
  BasicBlock* after = new_block(ir, "after");
  Sealed sealed(scope, ir.b.CreateCondBr(ir.b.CreateICmpSLT(lo, hi), inside, after));
  ir.b.SetInsertPoint(inside);
  auto* index = ir.b.CreatePHI(ir.b.getInt64Ty(), 2, "i");
  index->addIncoming(lo, before);
  std::vector<llvm::PHINode*> entering;
  Carried initial = carried;
  for (Value*& v : carried) {
    entering.push_back(ir.b.CreatePHI(v->getType(), 2));
    entering.back()->addIncoming(v, before);
    v = entering.back();
  }
  body(index);
  BasicBlock* latch = ir.b.GetInsertBlock();
  Value* next = ir.b.CreateNSWAdd(index, ir.i64(step));
  index->addIncoming(next, latch);
  for (std::size_t c = 0; c < carried.size(); ++c) entering[c]->addIncoming(carried[c], latch);
  ir.b.CreateCondBr(ir.b.CreateICmpSLT(next, hi), inside, after);
  ir.b.SetInsertPoint(after);
  leave(ir, carried, initial, before, latch);
}

// Several blocks between known bounds: the length of each is a constant, so LLVM can unroll them.
void emit_known_blocks(Scope& scope, std::int64_t lo, std::int64_t hi, std::int64_t step,
                       Carried& carried, const std::function<void(Value* i)>& body,
                       const Blocks& blocks) {
  Ir& ir = scope.ir;
  std::int64_t last = lo + (hi - lo - 1) / blocks.size * blocks.size;
  // All blocks share what is computed at this level, so it must precede the first of them.
  BasicBlock* entry = new_block(ir, "blocks");
  Sealed sealed(scope, ir.b.CreateBr(entry));
  ir.b.SetInsertPoint(entry);
  emit_skeleton(scope, "block", ir.i64(lo), ir.i64(last), blocks.size, carried, [&](Value* start) {
    Value* end = ir.b.CreateNSWAdd(start, ir.i64(blocks.size));
    emit_loop(scope, start, end, step, carried, body);
    blocks.between();
  });
  emit_loop(scope, ir.i64(last), ir.i64(hi), step, carried, body);
}

}  // namespace

void emit_if(Scope& scope, Value* condition, Carried& carried, const std::function<void()>& body) {
  Ir& ir = scope.ir;
  if (auto known = constant(condition); known && *known == 0) return;
  Carried initial = carried;
  BasicBlock* before = ir.b.GetInsertBlock();
  BasicBlock* inside = new_block(ir, "tail");
  BasicBlock* after = new_block(ir, "after");
  Sealed sealed(scope, ir.b.CreateCondBr(condition, inside, after));
  ir.b.SetInsertPoint(inside);
  scope.open();
  body();
  scope.close();
  BasicBlock* end = ir.b.GetInsertBlock();
  ir.b.CreateBr(after);
  ir.b.SetInsertPoint(after);
  leave(ir, carried, initial, before, end);
}

void emit_loop(Scope& scope, Value* lo, Value* hi, std::int64_t step, Carried& carried,
               const std::function<void(Value* i)>& body, const Blocks* blocks) {
  Ir& ir = scope.ir;
  auto first = constant(lo), limit = constant(hi);
  if (first && limit && *first >= *limit) return;
  if (blocks && !(first && limit && *limit - *first <= blocks->size)) {
    if (first && limit) {
      emit_known_blocks(scope, *first, *limit, step, carried, body, *blocks);
      return;
    }
    emit_skeleton(scope, "block", lo, hi, blocks->size, carried, [&](Value* start) {
      emit_if(scope, ir.b.CreateICmpSGT(start, lo), carried, blocks->between);
      Value* end = ir.b.CreateNSWAdd(start, ir.i64(blocks->size));
      end = ir.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, hi);
      emit_loop(scope, start, end, step, carried, body);
    });
    return;
  }
  if (first && limit && *limit - *first <= step) {
    scope.open();
    body(lo);
    scope.close();
    return;
  }
  emit_skeleton(scope, "loop", lo, hi, step, carried, [&](Value* i) {
    scope.open();
    body(i);
    scope.close();
  });
}

void emit_vector_loop(Scope& scope, Dim index, Value* lo, Value* hi, Tail tail, Carried& carried,
                      const std::function<void()>& body, const Blocks* blocks) {
  Ir& ir = scope.ir;
  int lanes = scope.lanes;
  Value* outer_mask = scope.mask;
  auto run = [&](Value* i, Value* mask) {
    scope.bind(index, i);
    scope.mask = mask;
    body();
    scope.mask = outer_mask;
  };
  auto first = constant(lo), limit = constant(hi);
  bool whole = first && limit && (*limit - *first) % lanes == 0;
  if (whole || tail == Tail::merged) {
    emit_loop(
        scope, lo, hi, lanes, carried,
        [&](Value* i) { run(i, whole ? nullptr : lanes_below(ir, lanes, ir.b.CreateSub(hi, i))); },
        blocks);
    return;
  }
  Value* count = ir.b.CreateSub(hi, lo);
  Value* full = ir.b.CreateAdd(lo, ir.b.CreateAnd(count, ir.i64(-lanes)));
  // Both bodies share what is computed at this level, so it must precede the first of them.
  BasicBlock* start = new_block(ir, "vectors");
  Sealed sealed(scope, ir.b.CreateBr(start));
  ir.b.SetInsertPoint(start);
  emit_loop(scope, lo, full, lanes, carried, [&](Value* i) { run(i, nullptr); }, blocks);
  emit_if(scope, ir.b.CreateICmpSLT(full, hi), carried,
          [&] { run(full, lanes_below(ir, lanes, ir.b.CreateSub(hi, full))); });
}

Value* lanes_between(Ir& ir, int lanes, Value* first, Value* lo, Value* hi) {
  Value* below = lanes_below(ir, lanes, ir.b.CreateSub(hi, first));
  Value* before =
      ir.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, ir.b.CreateSub(lo, first), ir.i64(0));
  return ir.b.CreateAnd(below, ir.b.CreateNot(lanes_below(ir, lanes, before)));
}

void emit_lane_loop(Ir& ir, int lanes, Value* mask, const std::function<void(Value* lane)>& body) {
  if (lanes == 1 && !mask) return body(ir.i64(0));
  // An element of a vector at a variable position would go through memory.
  const bool wide = mask && Ir::width(mask) > 1;
  llvm::Type* bits = ir.b.getIntNTy(static_cast<unsigned>(lanes));
  Value* lanes_on =
      wide ? ir.b.CreateZExtOrTrunc(ir.b.CreateBitCast(mask, bits), ir.b.getInt64Ty()) : nullptr;
  BasicBlock* before = ir.b.GetInsertBlock();
  BasicBlock* head = new_block(ir, "lane");
  BasicBlock* on = new_block(ir, "on");
  BasicBlock* next_lane = new_block(ir, "next");
  BasicBlock* after = new_block(ir, "after_lanes");
  ir.b.CreateBr(head);
  ir.b.SetInsertPoint(head);
  auto* lane = ir.b.CreatePHI(ir.b.getInt64Ty(), 2, "lane");
  lane->addIncoming(ir.i64(0), before);
  Value* active = !mask ? ir.b.getTrue() : mask;
  if (wide) active = ir.b.CreateTrunc(ir.b.CreateLShr(lanes_on, lane), ir.b.getInt1Ty());
  ir.b.CreateCondBr(active, on, next_lane);
  ir.b.SetInsertPoint(on);
  body(lane);
  ir.b.CreateBr(next_lane);
  ir.b.SetInsertPoint(next_lane);
  Value* next = ir.b.CreateAdd(lane, ir.i64(1));
  lane->addIncoming(next, next_lane);
  ir.b.CreateCondBr(ir.b.CreateICmpSLT(next, ir.i64(lanes)), head, after);
  ir.b.SetInsertPoint(after);
}

}  // namespace gex::codegen
