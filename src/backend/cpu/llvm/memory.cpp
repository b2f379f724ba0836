#include "backend/cpu/llvm/memory.hpp"

#include "backend/cpu/llvm/loops.hpp"
#include "backend/cpu/llvm/plan.hpp"
#include "backend/cpu/llvm/prims.hpp"
#include "base/error.hpp"
#include "loop/walk.hpp"

namespace gex::codegen {

using llvm::Value;
using loop::Buffer;
using loop::Store;
using Kind = Memory::Pending::Kind;

namespace {

llvm::Align alignment(DType dtype) { return llvm::Align(size_of(dtype)); }

// Every step-th of (lanes - 1)*step + 1 neighbouring elements, for the lanes of `mask` (null: all).
// The last vector ends at the last element that is needed: nothing beyond is read.
Value* pick_every(Ir& ir, llvm::Type* type, Value* first, int step, int lanes, Value* mask,
                  llvm::Align align) {
  llvm::Type* wide = Ir::widened(type, lanes);
  const auto count = static_cast<std::size_t>(lanes);
  Value* result = nullptr;
  for (int piece = 0; piece < step; ++piece) {
    const int begin = piece + 1 < step ? piece * lanes : (lanes - 1) * (step - 1);
    Value* pointer = ir.b.CreateConstGEP1_64(type, first, static_cast<std::uint64_t>(begin));
    std::vector<int> from(count), wanted_by(count, lanes);
    for (int lane = 0; lane < lanes; ++lane) {
      const int at = lane * step - begin;
      const bool here = lane * step >= piece * lanes && at >= 0 && at < lanes;
      from[static_cast<std::size_t>(lane)] = here ? (result ? lanes + at : at) : lane;
      if (here) wanted_by[static_cast<std::size_t>(at)] = lane;
    }
    Value* vector = nullptr;
    if (mask) {
      Value* wanted = ir.b.CreateShuffleVector(mask, ir.zero(mask->getType()), wanted_by);
      vector = ir.b.CreateMaskedLoad(wide, pointer, align, wanted, ir.zero(wide));
    } else {
      vector = ir.b.CreateAlignedLoad(wide, pointer, align);
    }
    result = result ? ir.b.CreateShuffleVector(result, vector, from)
                    : ir.b.CreateShuffleVector(vector, from);
  }
  return result;
}

// Neighbouring elements from `last`, that of lane 0, down, for the lanes of `mask` (null: all).
Value* load_reversed(Ir& ir, llvm::Type* type, Value* last, int lanes, Value* mask,
                     llvm::Align align) {
  llvm::Type* wide = Ir::widened(type, lanes);
  std::vector<int> reversed(static_cast<std::size_t>(lanes));
  for (int lane = 0; lane < lanes; ++lane)
    reversed[static_cast<std::size_t>(lane)] = lanes - 1 - lane;
  Value* pointer = ir.b.CreateGEP(type, last, ir.b.getInt64(1 - lanes));
  Value* vector = nullptr;
  if (mask) {
    mask = ir.b.CreateShuffleVector(mask, reversed);
    vector = ir.b.CreateMaskedLoad(wide, pointer, align, mask, ir.zero(wide));
  } else {
    vector = ir.b.CreateAlignedLoad(wide, pointer, align);
  }
  return ir.b.CreateShuffleVector(vector, reversed);
}

}  // namespace

Memory::Memory(Scope& scope, const loop::Kernel& kernel, Value* buffers, Value* scratch,
               bool lane_locals)
    : scope_(scope),
      ir_(scope.ir),
      kernel_(kernel),
      buffers_(buffers),
      scratch_(scratch),
      lane_locals_(lane_locals),
      bases_(kernel.buffers.size()) {}

bool Memory::is_lane_local(int buffer) const {
  return lane_locals_ && desc(buffer).role == Buffer::Role::local;
}

Value* Memory::nowhere() {
  // As long as the widest vectors, those of several columns of f64.
  constexpr std::uint64_t kElements = 64;
  if (!nowhere_) nowhere_ = ir_.stack_slot(ir_.b.getInt64Ty(), kElements);
  return nowhere_;
}

Value* Memory::base(int buffer) {
  Value*& known = bases_[static_cast<std::size_t>(buffer)];
  if (known) return known;
  if (is_lane_local(buffer)) {
    auto n = product(desc(buffer).shape).as_const();
    GEX_CHECK(n && *n <= kMaxLaneLocals, "local ", desc(buffer).name, " of lanes");
    llvm::Type* type = Ir::widened(ir_.memory_type(desc(buffer).dtype), scope_.lanes);
    return known = ir_.stack_slot(type, static_cast<std::uint64_t>(*n > 0 ? *n : 1));
  }
  return known = scope_.at(0, [&]() -> Value* {
    if (desc(buffer).role == Buffer::Role::local) {
      Dim bytes = 0;
      for (int b = kernel_.num_params(); b < buffer; ++b) bytes += loop::local_bytes(desc(b));
      return ir_.b.CreateGEP(ir_.b.getInt8Ty(), scratch_, scope_.scalar(bytes), desc(buffer).name);
    }
    Value* slot =
        ir_.b.CreateConstGEP1_64(ir_.b.getPtrTy(), buffers_, static_cast<std::uint64_t>(buffer));
    return ir_.b.CreateLoad(ir_.b.getPtrTy(), slot, desc(buffer).name);
  });
}

Value* Memory::offset_pointer(int buffer, Dim offset) {
  Value* start = base(buffer);
  if (offset == Dim(0)) return start;
  llvm::Type* type = ir_.memory_type(desc(buffer).dtype);
  Value* elements = scope_.scalar(offset);
  return scope_.at(scope_.place(offset).level,
                   [&] { return ir_.b.CreateGEP(type, start, elements); });
}

Memory::Address Memory::address(int buffer, Dim offset) {
  llvm::Type* type = ir_.memory_type(desc(buffer).dtype);
  if (!scope_.place(offset).varying) return {Kind::one, offset_pointer(buffer, offset), false};
  if (scope_.lane_index) {
    Dim lane = *scope_.lane_index;
    auto parts = affine_in(offset, lane);
    if (parts && !scope_.place(parts->rest).varying && !scope_.place(parts->coefficient).varying) {
      Value* row = offset_pointer(buffer, parts->rest);
      Value* first = scope_.lane_0();
      if (parts->coefficient == Dim(1))
        return {Kind::contiguous, ir_.b.CreateGEP(type, row, first), true};
      Value* moved = ir_.b.CreateMul(scope_.scalar(parts->coefficient), first);
      Value* steps = scope_.at(scope_.place(parts->coefficient).level, [&] {
        return ir_.b.CreateMul(scope_.vector(parts->coefficient), ir_.iota(scope_.lanes));
      });
      Value* lane_0 = ir_.b.CreateGEP(type, row, moved);
      bool distinct = parts->coefficient.range().lo > 0 || parts->coefficient.range().hi < 0;
      Address result{Kind::scattered, ir_.b.CreateGEP(type, lane_0, steps), distinct};
      const auto step = parts->coefficient.as_const();
      const bool picked = step && *step >= 2 && *step <= kMaxVectorStep;
      if ((picked || step == -1) && scope_.lanes > 1) {
        result.step = static_cast<int>(*step);
        result.lane_0 = lane_0;
      }
      return result;
    }
  }
  return {Kind::scattered, ir_.b.CreateGEP(type, base(buffer), scope_.vector(offset)), false};
}

Value* Memory::in_block(int buffer, Dim offset, Value* pred, bool store) {
  return blocks == nullptr || pred ? nullptr : blocks->vector_of(buffer, offset, store);
}

Value* Memory::lane_slot(int buffer, Dim offset) {
  llvm::Type* type = Ir::widened(ir_.memory_type(desc(buffer).dtype), scope_.lanes);
  Value* start = base(buffer);
  return ir_.b.CreateGEP(type, start, scope_.scalar(offset));
}

// The lanes that may access memory; null: all.
Value* Memory::combined_mask(Value* pred) const {
  Value* mask = scope_.mask;
  if (!pred) return mask;
  pred = ir_.splat(pred, scope_.lanes);
  return mask ? ir_.b.CreateAnd(mask, pred) : pred;
}

Value* Memory::load_one(llvm::Type* type, Value* pointer, Value* pred, DType dtype) {
  // With a false predicate a dummy location is read instead: no branch.
  if (pred) pointer = ir_.b.CreateSelect(pred, pointer, nowhere());
  return ir_.b.CreateAlignedLoad(type, pointer, alignment(dtype));
}

Value* Memory::gather(llvm::Type* type, Value* pointers, Value* mask, DType dtype) {
  auto* vector = llvm::cast<llvm::VectorType>(Ir::widened(type, scope_.lanes));
  if (mask && size_of(dtype) < 4) {
    // There is no gather instruction for these, and a masked expansion would branch for each lane.
    pointers = ir_.b.CreateSelect(mask, pointers, ir_.splat(nowhere(), scope_.lanes));
    mask = nullptr;
  }
  if (!mask) mask = ir_.splat(ir_.b.getTrue(), scope_.lanes);
  return ir_.b.CreateMaskedGather(vector, pointers, alignment(dtype), mask, ir_.zero(vector));
}

Value* Memory::load(int buffer, Dim offset, Value* pred, Value* fill, bool varying) {
  DType dtype = desc(buffer).dtype;
  llvm::Type* type = ir_.memory_type(dtype);
  llvm::Type* wide = Ir::widened(type, scope_.lanes);
  Value* raw = nullptr;
  if (is_lane_local(buffer)) {
    raw = ir_.b.CreateLoad(wide, lane_slot(buffer, offset));
  } else if (Value* row = in_block(buffer, offset, pred, false)) {
    raw = ir_.b.CreateLoad(wide, row);
  } else {
    Address a = address(buffer, offset);
    if (a.kind == Kind::one) {
      Value* touched = pred;
      if (pred && Ir::width(pred) > 1) touched = ir_.any(combined_mask(pred));
      raw = load_one(type, a.pointers, touched, dtype);
    } else if (a.kind == Kind::contiguous) {
      // One condition for all lanes selects the address: no mask.
      const bool one = pred && Ir::width(pred) == 1;
      if (one) a.pointers = ir_.b.CreateSelect(pred, a.pointers, nowhere());
      Value* mask = one ? scope_.mask : combined_mask(pred);
      raw = mask ? ir_.b.CreateMaskedLoad(wide, a.pointers, alignment(dtype), mask, ir_.zero(wide))
                 : static_cast<Value*>(ir_.b.CreateAlignedLoad(wide, a.pointers, alignment(dtype)));
    } else if (a.step == -1) {
      raw = load_reversed(ir_, type, a.lane_0, scope_.lanes, combined_mask(pred), alignment(dtype));
    } else if (a.step != 0) {
      raw = pick_every(ir_, type, a.lane_0, a.step, scope_.lanes, combined_mask(pred),
                       alignment(dtype));
    } else {
      raw = gather(type, a.pointers, combined_mask(pred), dtype);
    }
  }
  Value* value = from_memory(ir_, raw, dtype);
  if (varying) value = ir_.splat(value, scope_.lanes);
  if (!pred) return value;
  int width = varying ? scope_.lanes : 1;
  return ir_.b.CreateSelect(ir_.splat(pred, width), value, ir_.splat(fill, width));
}

Memory::Pending Memory::prepare(const Store& store, Dim offset, Value* value, Value* pred,
                                bool varying) {
  Pending p{&store, offset, value, pred, varying, nullptr, Kind::one, true, false};
  if (is_lane_local(store.buffer)) {
    p.pointers = lane_slot(store.buffer, offset);
    return p;
  }
  p.pointers = in_block(store.buffer, offset, pred, true);
  p.in_block = p.pointers != nullptr;
  if (p.in_block) return p;
  Address a = address(store.buffer, offset);
  p.pointers = a.pointers;
  p.kind = a.kind;
  p.distinct = a.distinct;
  return p;
}

Value* Memory::combine(const Store& store, Value* old, Value* value) {
  loop::Prim prim = loop::Prim::add;
  switch (store.mode) {
    case Store::Mode::set:
      return value;
    case Store::Mode::add:
      break;
    case Store::Mode::mul:
      prim = loop::Prim::mul;
      break;
    case Store::Mode::max:
      prim = loop::Prim::max;
      break;
    case Store::Mode::min:
      prim = loop::Prim::min;
      break;
  }
  return emit_prim(ir_, prim, desc(store.buffer).dtype, {old, value});
}

void Memory::update(Value* pointer, Value* value, const Store& store) {
  DType dtype = desc(store.buffer).dtype;
  llvm::Type* type = Ir::like(value, ir_.memory_type(dtype));
  if (store.mode != Store::Mode::set) {
    Value* old = ir_.b.CreateAlignedLoad(type, pointer, alignment(dtype));
    value = combine(store, from_memory(ir_, old, dtype), value);
  }
  ir_.b.CreateAlignedStore(to_memory(ir_, value, dtype), pointer, alignment(dtype));
}

// Compare and swap on the bits: one form for every dtype and mode.
void Memory::update_atomically(Value* pointer, Value* value, const Store& store) {
  auto& b = ir_.b;
  DType dtype = desc(store.buffer).dtype;
  llvm::Type* type = ir_.memory_type(dtype);
  llvm::Type* bits = b.getIntNTy(static_cast<unsigned>(8 * size_of(dtype)));
  auto* load = b.CreateAlignedLoad(bits, pointer, alignment(dtype));
  load->setAtomic(llvm::AtomicOrdering::Monotonic);
  auto* before = b.GetInsertBlock();
  auto* again = llvm::BasicBlock::Create(b.getContext(), "swap", before->getParent());
  auto* after = llvm::BasicBlock::Create(b.getContext(), "swapped", before->getParent());
  b.CreateBr(again);
  b.SetInsertPoint(again);
  auto* seen = b.CreatePHI(bits, 2);
  seen->addIncoming(load, before);
  Value* old = from_memory(ir_, b.CreateBitCast(seen, type), dtype);
  Value* fresh = b.CreateBitCast(to_memory(ir_, combine(store, old, value), dtype), bits);
  auto* swap =
      b.CreateAtomicCmpXchg(pointer, seen, fresh, alignment(dtype), llvm::AtomicOrdering::Monotonic,
                            llvm::AtomicOrdering::Monotonic);
  auto* end = b.GetInsertBlock();
  seen->addIncoming(b.CreateExtractValue(swap, 0), end);
  b.CreateCondBr(b.CreateExtractValue(swap, 1), after, again);
  b.SetInsertPoint(after);
}

void Memory::store_one(const Pending& p) {
  Value* pointer = p.pred ? ir_.b.CreateSelect(p.pred, p.pointers, nowhere()) : p.pointers;
  bool atomic = p.store->shared && !p.store->ordered && p.store->mode != Store::Mode::set;
  if (atomic)
    update_atomically(pointer, p.value, *p.store);
  else
    update(pointer, p.value, *p.store);
}

void Memory::store_lane_by_lane(const Pending& p) {
  bool atomic = p.store->shared && !p.store->ordered && p.store->mode != Store::Mode::set;
  Value* values = ir_.splat(p.value, scope_.lanes);
  // Stored once, not for each lane as an element at a variable position is.
  auto spilled = [&](Value* v) -> Value* {
    if (Ir::width(v) == 1 || v->getType()->getScalarType()->isIntegerTy(1)) return nullptr;
    Value* slot = ir_.stack_slot(v->getType(), 1);
    ir_.b.CreateStore(v, slot);
    return slot;
  };
  Value* slot_of_pointers = spilled(p.pointers);
  Value* slot_of_values = spilled(values);
  emit_lane_loop(ir_, scope_.lanes, combined_mask(p.pred), [&](Value* lane) {
    auto pick = [&](Value* v, Value* slot) -> Value* {
      if (Ir::width(v) == 1) return v;
      if (!slot) return ir_.b.CreateExtractElement(v, lane);
      llvm::Type* type = v->getType()->getScalarType();
      return ir_.b.CreateLoad(type, ir_.b.CreateGEP(type, slot, lane));
    };
    Value* pointer = pick(p.pointers, slot_of_pointers);
    Value* value = pick(values, slot_of_values);
    if (atomic)
      update_atomically(pointer, value, *p.store);
    else
      update(pointer, value, *p.store);
  });
}

void Memory::commit(const Pending& p) {
  const Store& store = *p.store;
  DType dtype = desc(store.buffer).dtype;
  if (is_lane_local(store.buffer)) {
    // Lanes beyond the end store too: nothing reads those elements.
    Value* raw = to_memory(ir_, ir_.splat(p.value, scope_.lanes), dtype);
    if (p.pred) {
      Value* old = ir_.b.CreateLoad(raw->getType(), p.pointers);
      raw = ir_.b.CreateSelect(ir_.splat(p.pred, scope_.lanes), raw, old);
    }
    ir_.b.CreateStore(raw, p.pointers);
    return;
  }
  if (p.in_block) {
    ir_.b.CreateStore(to_memory(ir_, ir_.splat(p.value, scope_.lanes), dtype), p.pointers);
    return;
  }
  if (!p.varying) return store_one(p);
  bool updates = store.mode != Store::Mode::set;
  bool atomic = updates && store.shared && !store.ordered;
  bool in_turn = p.kind == Kind::one || atomic || (updates && !p.distinct);
  if (in_turn) return store_lane_by_lane(p);
  Value* mask = combined_mask(p.pred);
  Value* value = ir_.splat(p.value, scope_.lanes);
  llvm::Type* wide = Ir::widened(ir_.memory_type(dtype), scope_.lanes);
  if (updates) {
    Value* old =
        p.kind == Kind::scattered ? gather(wide->getScalarType(), p.pointers, mask, dtype)
        : mask ? ir_.b.CreateMaskedLoad(wide, p.pointers, alignment(dtype), mask, ir_.zero(wide))
               : static_cast<Value*>(ir_.b.CreateAlignedLoad(wide, p.pointers, alignment(dtype)));
    value = combine(store, from_memory(ir_, old, dtype), value);
  }
  Value* raw = to_memory(ir_, value, dtype);
  if (p.kind == Kind::scattered) {
    if (!mask) mask = ir_.splat(ir_.b.getTrue(), scope_.lanes);
    ir_.b.CreateMaskedScatter(raw, p.pointers, alignment(dtype), mask);
  } else if (mask) {
    ir_.b.CreateMaskedStore(raw, p.pointers, alignment(dtype), mask);
  } else {
    ir_.b.CreateAlignedStore(raw, p.pointers, alignment(dtype));
  }
}

}  // namespace gex::codegen
