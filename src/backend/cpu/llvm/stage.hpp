#pragma once
// Emits one stage: its loops in the planned order, its expressions each at their level, its
// reduction with vectors of partial accumulators, its stores.

#include <vector>

#include "backend/cpu/llvm/loops.hpp"
#include "backend/cpu/llvm/memory.hpp"
#include "backend/cpu/llvm/plan.hpp"
#include "loop/printed_lines.hpp"

namespace gex::codegen {

class StageEmitter : private ValueSource {
 public:
  // The scope is at the level of the grid point; if lanes are points, that level is varying.
  // `lines` is null for code without lines.
  StageEmitter(Scope& scope, Memory& memory, const loop::Kernel& kernel, const loop::Stage& stage,
               const StagePlan& plan, bool lanes_are_points, const loop::StageLines* lines);
  ~StageEmitter() override;

  void run();

 private:
  static std::size_t at(loop::ExprId id) { return static_cast<std::size_t>(id); }
  Place place_of(loop::ExprId id) override;
  llvm::Value* value_of(loop::ExprId id) override;

  void order_loops();
  void place_expressions();
  void run_loops(std::size_t depth);
  void run_loop(std::size_t depth);
  void forget(int level);

  llvm::Value* emit(const loop::Expr& e, bool varying);
  llvm::Value* lane_value(loop::ExprId id, bool varying);

  // --- reduction ---
  void start_accumulators();
  void fold_element();
  Carried elements();
  bool scans_lanes() const { return scan_ && lanes_reduce_; }
  void scan_vector();
  void finish_accumulators();
  llvm::Value* accumulator(std::size_t slot, DType dtype);
  Carried combine(const loop::Combine& body, llvm::ArrayRef<llvm::Value*> left,
                  llvm::ArrayRef<llvm::Value*> right);
  Carried merge_partials();
  Carried merge_lanes(const loop::Combine& body, Carried state);
  Carried widen(const Carried& state);
  // Blocks.
  bool may_fill_a_block() const;
  bool counts_steps() const { return stage_.reduce.size() > 1; }
  std::int64_t block_steps() const { return plan_.block_steps * plan_.partials; }
  std::int64_t block_size() const;
  void count_steps(llvm::Value* extent);
  void merge_block();
  std::size_t num_accumulators() const { return stage_.reduction->accumulators.size(); }
  std::size_t num_partials() const;

  // --- stores ---
  Place store_place(const loop::Store& store);
  bool reads_accumulator(const loop::Store& store) const;
  std::vector<Memory::Pending> prepare_stores(int level, bool after);
  void commit(const std::vector<Memory::Pending>& stores);
  Dim offset(int buffer, const std::vector<Dim>& index) const;

  // --- lines of the kernel's text; 0 without lines ---
  int line_of(loop::ExprId id) const { return lines_ ? lines_->exprs[at(id)] : 0; }
  int line_of(const loop::Store& store) const {
    return lines_ ? lines_->stores[static_cast<std::size_t>(&store - stage_.stores.data())] : 0;
  }
  int line_of_combine() const { return lines_ ? lines_->combine : 0; }

  struct Loop {
    Dim index;
    bool reduces;
    bool lanes;  // iterations are lanes
  };
  struct Placed {
    Place place;
    bool after = false;  // reads an accumulator
  };

  Scope& scope_;
  Ir& ir_;
  Memory& memory_;
  const loop::Kernel& kernel_;
  const loop::Stage& stage_;
  StagePlan plan_;
  const loop::StageLines* lines_;
  bool lanes_are_points_;
  bool scan_;
  bool lanes_reduce_ = false;  // lanes are elements of one reduction
  Tail tail_;
  int base_;                 // level of the grid point
  std::vector<Loop> loops_;  // as nested
  std::size_t domains_ = 0;  // how many of them are domain loops
  std::vector<Placed> placed_;
  std::vector<llvm::Value*> values_;
  std::vector<llvm::Value*> splats_;
  // During the fold: partials x accumulators, and, if blocks are merged, the f64 accumulators, a
  // flag whether one was merged and (in nested reduce loops) the steps since. After the fold: one
  // per accumulator.
  Carried accumulators_;
  Carried unrounded_;           // after the fold: the same in f64, if it was merged in f64
  loop::Combine wide_combine_;  // of f64 accumulators, where the plan has blocks
  bool merges_blocks_ = false;  // a fold may be longer than a block
  bool in_element_ = false;     // a scan's accumulators are those after the current element
  Carried after_vector_;        // lanes that are elements of a scan: the state after all of them
};

// The code size of a stage's expressions, roughly in instructions.
int code_size(const loop::Stage& stage);
// Above this size a second, masked copy of a loop's body costs more compile time than its mask
// costs at run time.
inline constexpr int kMergedTailSize = 30;

}  // namespace gex::codegen
