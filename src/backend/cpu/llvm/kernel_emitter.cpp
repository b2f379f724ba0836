#include "backend/cpu/llvm/kernel_emitter.hpp"

#include "backend/cpu/llvm/debug_lines.hpp"
#include "backend/cpu/llvm/segments.hpp"
#include "backend/cpu/llvm/stage.hpp"

namespace gex::codegen {

using llvm::Value;
using loop::Kernel;

namespace {

class KernelEmitter {
 public:
  KernelEmitter(Ir& ir, const Kernel& kernel, const std::vector<Dim>& symbols,
                const KernelPlan& plan, const std::string& name, DebugLines* lines)
      : ir_(ir),
        kernel_(kernel),
        plan_(plan),
        function_(make_function(name)),
        scope_(ir, function_->getArg(2), symbols),
        memory_(scope_, kernel, function_->getArg(1), function_->getArg(5), plan.lanes_are_points),
        lines_(lines == nullptr ? KernelLines{} : lines->start(kernel, *function_)) {
    ir_.debug_function = lines_.function;
  }
  ~KernelEmitter() { ir_.debug_function = nullptr; }
  KernelEmitter(const KernelEmitter&) = delete;
  KernelEmitter& operator=(const KernelEmitter&) = delete;

  void run() {
    const AtLine line(ir_, lines_.text.kernel);
    auto* start = llvm::BasicBlock::Create(ir_.b.getContext(), "start", function_);
    auto* done = llvm::BasicBlock::Create(ir_.b.getContext(), "done", function_);
    Value* begin = function_->getArg(3);
    Value* end = function_->getArg(4);
    ir_.b.SetInsertPoint(&function_->getEntryBlock());
    ir_.b.CreateCondBr(ir_.b.CreateICmpSLT(begin, end), start, done);
    ir_.b.SetInsertPoint(start);
    if (plan_.lanes_are_points && plan_.tiled)
      run_tiles(begin, end);
    else if (plan_.lanes_are_points)
      run_rows(begin, end);
    else
      run_points(begin, end);
    ir_.b.CreateBr(done);
    ir_.b.SetInsertPoint(done);
    ir_.b.CreateRetVoid();
  }

 private:
  llvm::Function* make_function(const std::string& name) {
    llvm::Type* pointer = ir_.b.getPtrTy();
    llvm::Type* i64 = ir_.b.getInt64Ty();
    auto* type = llvm::FunctionType::get(ir_.b.getVoidTy(),
                                         {pointer, pointer, pointer, i64, i64, pointer}, false);
    auto* function =
        llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, ir_.module);
    ir_.set_attributes(*function);
    const char* names[] = {"context", "buffers", "dims", "begin", "end", "scratch"};
    for (unsigned a = 0; a < 6; ++a) function->getArg(a)->setName(names[a]);
    llvm::BasicBlock::Create(ir_.b.getContext(), "entry", function);
    return function;
  }

  void run_stages() {
    for (std::size_t s = 0; s < kernel_.stages.size(); ++s)
      StageEmitter(scope_, memory_, kernel_, kernel_.stages[s], plan_.stages[s],
                   plan_.lanes_are_points,
                   lines_.function == nullptr ? nullptr : &lines_.text.stages[s])
          .run();
  }

  // The indices of flat point (or row) number `flat` along the first `axes` grid axes.
  Carried decompose(Value* flat, std::size_t axes) {
    Carried indices(axes);
    for (std::size_t a = axes; a-- > 0;) {
      Value* extent = scope_.scalar(kernel_.grid[a].extent());
      indices[a] = a == 0 ? flat : ir_.b.CreateURem(flat, extent);
      if (a > 0) flat = ir_.b.CreateUDiv(flat, extent);
    }
    return indices;
  }

  // Advances the indices to the next point: cheaper than dividing at each point.
  void step(Carried& indices) {
    Value* carry = ir_.b.getTrue();
    for (std::size_t a = indices.size(); a-- > 0;) {
      Value* next = ir_.b.CreateAdd(indices[a], ir_.b.CreateZExt(carry, ir_.b.getInt64Ty()));
      if (a == 0) {
        indices[a] = next;
        break;
      }
      carry = ir_.b.CreateICmpEQ(next, scope_.scalar(kernel_.grid[a].extent()));
      indices[a] = ir_.b.CreateSelect(carry, ir_.i64(0), next);
    }
  }

  void run_points(Value* begin, Value* end) {
    std::size_t axes = kernel_.grid.size();
    for (const auto& r : kernel_.grid) scope_.declare(r.index, {1, false});
    Carried indices = decompose(begin, axes);
    emit_loop(scope_, begin, end, 1, indices, [&](Value*) {
      for (std::size_t a = 0; a < axes; ++a) scope_.bind(kernel_.grid[a].index, indices[a]);
      run_stages();
      step(indices);
    });
  }

  void run_rows(Value* begin, Value* end) {
    std::size_t outer = kernel_.grid.size() - 1;
    Dim lane = kernel_.grid.back().index;
    scope_.lane_index = lane;
    scope_.lanes = ir_.target.lanes() * plan_.vectors;
    int vector_level = outer == 0 ? 1 : 2;
    for (std::size_t a = 0; a < outer; ++a) scope_.declare(kernel_.grid[a].index, {1, false});
    scope_.declare(lane, {vector_level, true});
    int size = 0;
    for (const auto& s : kernel_.stages) size += code_size(s);
    bool loops = false;
    for (const auto& s : kernel_.stages) loops = loops || !s.domain.empty() || !s.reduce.empty();
    const bool merged = size > kMergedTailSize || (loops && !plan_.picks_elements);
    Tail tail = merged ? Tail::merged : Tail::separate;
    segments_ = segments_of(kernel_);
    for (const Segment& segment : segments_)  // inside of a branch
      scope_.declare(segment.lane, {vector_level + 1, true});
    if (outer == 0) return run_lanes(begin, end, tail);
    Value* width = scope_.scalar(kernel_.grid.back().extent());
    Value* first = ir_.b.CreateUDiv(begin, width);
    Value* last = ir_.b.CreateUDiv(ir_.b.CreateSub(end, ir_.i64(1)), width);
    Carried indices = decompose(first, outer);
    emit_loop(scope_, first, ir_.b.CreateAdd(last, ir_.i64(1)), 1, indices, [&](Value* row) {
      for (std::size_t a = 0; a < outer; ++a) scope_.bind(kernel_.grid[a].index, indices[a]);
      Value* start = ir_.b.CreateMul(row, width);
      Value* lo = ir_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, ir_.i64(0),
                                              ir_.b.CreateSub(begin, start));
      Value* hi =
          ir_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, width, ir_.b.CreateSub(end, start));
      run_lanes(lo, hi, tail);
      step(indices);
    });
  }

  // The lanes [lo, hi) of a row, in each segment by its own stages. Most rows are whole, and then
  // the bounds of all loops are constants.
  void run_lanes(Value* lo, Value* hi, Tail tail) {
    Carried none;
    const Dim lane = kernel_.grid.back().index;
    if (segments_.empty())
      return emit_vector_loop(scope_, lane, lo, hi, tail, none, [&] { run_stages(); });
    Value* from_start = ir_.b.CreateICmpEQ(lo, ir_.i64(0));
    Value* to_end = ir_.b.CreateICmpEQ(hi, scope_.scalar(*lane.extent()));
    Value* whole = ir_.b.CreateAnd(from_start, to_end);
    emit_if(scope_, whole, none, [&] {
      for (const Segment& segment : segments_)
        run_segment(segment, ir_.i64(0), scope_.scalar(*segment.lane.extent()), Tail::separate);
    });
    emit_if(scope_, ir_.b.CreateNot(whole), none, [&] {
      for (const Segment& segment : segments_) {
        Value* length = scope_.scalar(*segment.lane.extent());
        auto limited = [&](Value* at) {
          Value* inside = ir_.b.CreateSub(at, ir_.i64(segment.begin));
          inside = ir_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, inside, ir_.i64(0));
          return ir_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, inside, length);
        };
        run_segment(segment, limited(lo), limited(hi), tail);
      }
    });
    scope_.lane_index = lane;
  }

  void run_segment(const Segment& segment, Value* lo, Value* hi, Tail tail) {
    Carried none;
    scope_.lane_index = segment.lane;
    emit_vector_loop(scope_, segment.lane, lo, hi, tail, none, [&] {
      for (std::size_t s = 0; s < segment.stages.size(); ++s)
        StageEmitter(scope_, memory_, kernel_, segment.stages[s], plan_.stages[s], true, nullptr)
            .run();
    });
  }

  // Blocks of rows, and in each block all rows for one vector of columns before the next. The range
  // may cut the first and the last row; a mask per row handles that.
  void run_tiles(Value* begin, Value* end) {
    std::size_t outer = kernel_.grid.size() - 2;
    Dim lane = kernel_.grid.back().index, row = kernel_.grid[outer].index;
    scope_.lane_index = lane;
    scope_.lanes = ir_.target.lanes() * plan_.vectors;
    for (std::size_t a = 0; a < outer; ++a) scope_.declare(kernel_.grid[a].index, {1, false});
    // Lane values belong to the innermost level: only there the mask is known.
    scope_.declare(lane, {3, true});
    scope_.declare(row, {3, false});
    Value* width = scope_.scalar(*lane.extent());
    Value* rows = scope_.scalar(*row.extent());
    Value* tiles =
        ir_.b.CreateUDiv(ir_.b.CreateAdd(rows, ir_.i64(kTileRows - 1)), ir_.i64(kTileRows));
    auto tile_of = [&](Value* point) {  // tiles never span two values of the outer axes
      Value* flat_row = ir_.b.CreateUDiv(point, width);
      Value* block = ir_.b.CreateUDiv(flat_row, rows);
      Value* inside = ir_.b.CreateURem(flat_row, rows);
      return ir_.b.CreateAdd(ir_.b.CreateMul(block, tiles),
                             ir_.b.CreateUDiv(inside, ir_.i64(kTileRows)));
    };
    // A range within one row, as epilogues have, needs no other columns.
    Value* first_row = ir_.b.CreateUDiv(begin, width);
    Value* last_row = ir_.b.CreateUDiv(ir_.b.CreateSub(end, ir_.i64(1)), width);
    Value* one_row = ir_.b.CreateICmpEQ(first_row, last_row);
    Value* row_start = ir_.b.CreateMul(first_row, width);
    Value* from_column = ir_.b.CreateSelect(one_row, ir_.b.CreateSub(begin, row_start), ir_.i64(0));
    Value* to_column = ir_.b.CreateSelect(one_row, ir_.b.CreateSub(end, row_start), width);
    TileBlocks blocks(scope_, kernel_, kTileRows, [&](int buffer, Dim offset) {
      return memory_.offset_pointer(buffer, offset);
    });
    memory_.blocks = &blocks;
    Value* first = tile_of(begin);
    Value* last = tile_of(ir_.b.CreateSub(end, ir_.i64(1)));
    Carried none;
    emit_loop(scope_, first, ir_.b.CreateAdd(last, ir_.i64(1)), 1, none, [&](Value* tile) {
      Value* block = ir_.b.CreateUDiv(tile, tiles);
      Carried indices = decompose(block, outer);
      for (std::size_t a = 0; a < outer; ++a) scope_.bind(kernel_.grid[a].index, indices[a]);
      Value* rows_before = ir_.b.CreateMul(block, rows);
      Value* top = ir_.b.CreateMul(ir_.b.CreateURem(tile, tiles), ir_.i64(kTileRows));
      Value* bottom = ir_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rows,
                                                  ir_.b.CreateAdd(top, ir_.i64(kTileRows)));
      Value* lo = ir_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, top,
                                              ir_.b.CreateSub(first_row, rows_before));
      Value* behind = ir_.b.CreateAdd(ir_.b.CreateSub(last_row, rows_before), ir_.i64(1));
      Value* hi = ir_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bottom, behind);
      Value* origin = ir_.b.CreateMul(ir_.b.CreateAdd(rows_before, lo), width);
      TilePart part{lo,    ir_.b.CreateSub(hi, lo),        nullptr,
                    width, ir_.b.CreateSub(begin, origin), ir_.b.CreateSub(end, origin)};
      emit_loop(scope_, from_column, to_column, scope_.lanes, none, [&](Value* column) {
        part.column = column;
        blocks.fill(part);
        scope_.bind(lane, column);
        run_tile_rows(part, row, &blocks);
        blocks.flush(part);
      });
    });
    memory_.blocks = nullptr;
    scope_.mask = nullptr;
  }

  void run_tile_rows(const TilePart& part, Dim row, TileBlocks* blocks) {
    Carried none;
    emit_loop(scope_, ir_.i64(0), part.count, 1, none, [&](Value* r) {
      scope_.bind(row, ir_.b.CreateAdd(part.first, r));
      blocks->set_row(r);
      Value* start = ir_.b.CreateMul(r, part.width);
      Value* from = ir_.b.CreateSub(part.begin, start);
      Value* to = ir_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, part.width,
                                              ir_.b.CreateSub(part.end, start));
      scope_.mask = lanes_between(ir_, scope_.lanes, part.column, from, to);
      run_stages();
    });
  }

  static constexpr std::int64_t kTileRows = 16;  // f32: one cache line
  Ir& ir_;
  const Kernel& kernel_;
  const KernelPlan& plan_;
  llvm::Function* function_;
  Scope scope_;
  Memory memory_;
  KernelLines lines_;
  std::vector<Segment> segments_;
};

}  // namespace

void emit_kernel(Ir& ir, const Kernel& kernel, const std::vector<Dim>& symbols,
                 const KernelPlan& plan, const std::string& name, DebugLines* lines) {
  KernelEmitter(ir, kernel, symbols, plan, name, lines).run();
}

}  // namespace gex::codegen
