#include "backend/cpu/llvm/tile_blocks.hpp"

#include <algorithm>

#include "backend/cpu/llvm/loops.hpp"
#include "loop/walk.hpp"

namespace gex::codegen {

using llvm::Value;
using loop::Expr;
using loop::Store;

TileBlocks::TileBlocks(Scope& scope, const loop::Kernel& kernel, int rows,
                       std::function<Value*(int, Dim)> pointer)
    : scope_(scope), ir_(scope.ir), kernel_(kernel), rows_(rows), pointer_(std::move(pointer)) {
  if (rows % scope.lanes != 0) return;
  for (const loop::Stage& stage : kernel.stages) {
    for (const Expr& e : stage.exprs) {
      if (e.kind != Expr::Kind::load || e.pred != loop::kNoExpr) continue;
      const auto role = kernel.buffers[static_cast<std::size_t>(e.buffer)].role;
      if (role == loop::Buffer::Role::in) add(e.buffer, e.index, false);
    }
    for (const Store& s : stage.stores)
      if (s.mode == Store::Mode::set && s.pred == loop::kNoExpr) add(s.buffer, s.index, true);
  }
}

// Depends on nothing but sizes and the grid axes outside of the tile.
bool TileBlocks::is_outer(Dim d) const {
  std::vector<Dim> symbols;
  d.collect_symbols(symbols);
  return std::ranges::all_of(symbols, [&](Dim s) {
    if (loop::value_symbol_id(s)) return false;
    if (!s.extent()) return true;
    const auto outer = kernel_.grid.size() - 2;
    return std::any_of(kernel_.grid.begin(),
                       kernel_.grid.begin() + static_cast<std::ptrdiff_t>(outer),
                       [&](const loop::Range& r) { return r.index == s; });
  });
}

void TileBlocks::add(int buffer, const std::vector<Dim>& index, bool store) {
  const loop::Buffer& desc = kernel_.buffers[static_cast<std::size_t>(buffer)];
  if (desc.role == loop::Buffer::Role::local || !loop::is_across(kernel_, buffer, index)) return;
  const Dim offset = loop::linear_offset(desc, index);
  const auto lane = affine_in(offset, kernel_.grid.back().index);
  const auto row = affine_in(lane->rest, kernel_.grid[kernel_.grid.size() - 2].index);
  if (!row || !is_outer(lane->coefficient) || !is_outer(row->rest)) return;
  const auto step = row->coefficient.as_const();
  if (!step || (*step != 1 && *step != -1)) return;
  for (const Block& b : blocks_)
    if (b.buffer == buffer && (b.store || store || b.offset == offset)) return;
  llvm::Type* type = ir_.memory_type(desc.dtype);
  Value* memory =
      ir_.stack_slot(Ir::widened(type, scope_.lanes), static_cast<std::uint64_t>(rows_));
  blocks_.push_back(
      {buffer, offset, row->rest, lane->coefficient, static_cast<int>(*step), store, type, memory});
}

Value* TileBlocks::vector_of(int buffer, Dim offset, bool store) {
  for (const Block& b : blocks_)
    if (b.buffer == buffer && b.offset == offset && b.store == store)
      return slot(b, row_, ir_.i64(0));
  return nullptr;
}

Value* TileBlocks::slot(const Block& block, Value* row, Value* lane) {
  Value* position = ir_.b.CreateAdd(ir_.b.CreateMul(row, ir_.i64(scope_.lanes)), lane);
  return ir_.b.CreateGEP(block.type, block.memory, position);
}

Value* TileBlocks::element(const Block& block, Value* row, Value* lane) {
  Value* along = block.row_step == 1 ? row : ir_.b.CreateNeg(row);
  Value* moved = ir_.b.CreateMul(scope_.scalar(block.lane_step), lane);
  return ir_.b.CreateGEP(block.type, pointer_(block.buffer, block.rest),
                         ir_.b.CreateAdd(along, moved));
}

// Of as many vectors as they have lanes: swaps halves, then quarters, and so on.
std::vector<Value*> TileBlocks::transposed(std::vector<Value*> vectors) {
  const int n = scope_.lanes;
  for (int step = n / 2; step > 0; step /= 2) {
    std::vector<int> low, high;
    for (int l = 0; l < n; ++l) {
      low.push_back((l & step) == 0 ? l : n + l - step);
      high.push_back((l & step) == 0 ? l + step : n + l);
    }
    for (int i = 0; i < n; ++i) {
      if ((i & step) != 0) continue;
      Value*& a = vectors[static_cast<std::size_t>(i)];
      Value*& b = vectors[static_cast<std::size_t>(i + step)];
      Value* first = ir_.b.CreateShuffleVector(a, b, low);
      b = ir_.b.CreateShuffleVector(a, b, high);
      a = first;
    }
  }
  return vectors;
}

// All rows and lanes: squares of `lanes` rows, in registers.
void TileBlocks::move_squares(const Block& block, const TilePart& part) {
  const int n = scope_.lanes;
  llvm::Type* wide = Ir::widened(block.type, n);
  const llvm::Align align(block.type->getScalarSizeInBits() / 8);
  const bool backwards = block.row_step == -1;
  for (int square = 0; square < rows_; square += n) {
    auto along_rows = [&](int lane) {  // memory of rows side by side
      Value* row = ir_.b.CreateAdd(part.first, ir_.i64(square + (backwards ? n - 1 : 0)));
      return element(block, row, ir_.b.CreateAdd(part.column, ir_.i64(lane)));
    };
    auto of_row = [&](int k) {
      return slot(block, ir_.i64(square + (backwards ? n - 1 - k : k)), ir_.i64(0));
    };
    std::vector<Value*> vectors;
    for (int k = 0; k < n; ++k)
      vectors.push_back(block.store ? ir_.b.CreateLoad(wide, of_row(k))
                                    : ir_.b.CreateAlignedLoad(wide, along_rows(k), align));
    vectors = transposed(std::move(vectors));
    for (int k = 0; k < n; ++k) {
      Value* v = vectors[static_cast<std::size_t>(k)];
      if (block.store)
        ir_.b.CreateAlignedStore(v, along_rows(k), align);
      else
        ir_.b.CreateStore(v, of_row(k));
    }
  }
}

void TileBlocks::move_elements(const Block& block, const TilePart& part) {
  auto& b = ir_.b;
  const llvm::Align align(block.type->getScalarSizeInBits() / 8);
  Carried none;
  Value* last = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, part.width,
                                        b.CreateAdd(part.column, ir_.i64(scope_.lanes)));
  emit_loop(scope_, ir_.i64(0), part.count, 1, none, [&](Value* r) {
    Value* start = b.CreateMul(r, part.width);
    Value* from =
        b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, part.column, b.CreateSub(part.begin, start));
    Value* to = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, b.CreateSub(part.end, start));
    emit_loop(scope_, from, to, 1, none, [&](Value* lane) {
      Value* outside = element(block, b.CreateAdd(part.first, r), lane);
      Value* inside = slot(block, r, b.CreateSub(lane, part.column));
      Value* value = b.CreateAlignedLoad(block.type, block.store ? inside : outside, align);
      b.CreateAlignedStore(value, block.store ? outside : inside, align);
    });
  });
}

void TileBlocks::move(const TilePart& part, bool store) {
  if (std::ranges::none_of(blocks_, [&](const Block& b) { return b.store == store; })) return;
  auto& b = ir_.b;
  Value* rows = b.CreateICmpEQ(part.count, ir_.i64(rows_));
  Value* lanes = b.CreateICmpSLE(b.CreateAdd(part.column, ir_.i64(scope_.lanes)), part.width);
  Value* last_row = b.CreateMul(b.CreateSub(part.count, ir_.i64(1)), part.width);
  Value* last = b.CreateAdd(b.CreateAdd(last_row, part.column), ir_.i64(scope_.lanes));
  Value* in_range =
      b.CreateAnd(b.CreateICmpSLE(part.begin, part.column), b.CreateICmpSLE(last, part.end));
  Value* whole = b.CreateAnd(b.CreateAnd(rows, lanes), in_range);
  Carried none;
  auto move_all = [&](bool squares) {
    for (const Block& block : blocks_) {
      if (block.store != store) continue;
      if (squares)
        move_squares(block, part);
      else
        move_elements(block, part);
    }
  };
  emit_if(scope_, whole, none, [&] { move_all(true); });
  emit_if(scope_, b.CreateNot(whole), none, [&] { move_all(false); });
}

void TileBlocks::fill(const TilePart& part) { move(part, false); }
void TileBlocks::flush(const TilePart& part) { move(part, true); }

}  // namespace gex::codegen
