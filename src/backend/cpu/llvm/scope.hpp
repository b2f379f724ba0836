#pragma once
// Places code in the loop nest. A kernel is a nest of levels: the function, the grid point (or row
// of points), then the loops of a stage. Every value is computed at the outermost level at which
// all its operands are known; Scope finds that level, caches the value while the level is open, and
// turns Dims into code.

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/cpu/llvm/ir.hpp"
#include "base/dim/dim.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen {

// The level a value belongs to, and whether it differs between lanes.
struct Place {
  int level = 0;
  bool varying = false;
  friend Place join(Place a, Place b) {
    return {a.level > b.level ? a.level : b.level, a.varying || b.varying};
  }
};

// Values of value symbols in Dims; implemented by the emitter of a stage's expressions.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  virtual Place place_of(loop::ExprId id) = 0;
  virtual llvm::Value* value_of(loop::ExprId id) = 0;  // scalar, or vector if varying
};

class Scope {
 public:
  Scope(Ir& ir, llvm::Value* dims, std::vector<Dim> symbols);

  // --- levels ---
  int level() const { return static_cast<int>(levels_.size()) - 1; }
  // Code emitted at the current level from a deeper level goes before `anchor`.
  void seal(llvm::Instruction* anchor) { levels_.back().anchor = anchor; }
  bool is_sealed() const { return levels_.back().anchor != nullptr; }
  void unseal() { levels_.back().anchor = nullptr; }
  void open() { levels_.emplace_back(); }
  void close() { levels_.pop_back(); }
  // Runs `emit` with the builder at the insertion point of that level.
  template <class F>
  llvm::Value* at(int level, F&& emit) {
    llvm::Instruction* anchor = anchor_of(level);
    if (!anchor) return emit();
    llvm::IRBuilderBase::InsertPointGuard guard(ir.b);
    ir.b.SetInsertPoint(anchor);
    return emit();
  }

  // --- indices ---
  void declare(Dim index, Place place) { places_[index] = place; }
  void bind(Dim index, llvm::Value* value) { indices_[index] = value; }
  // Lanes run along this index: its bound value is that of lane 0.
  std::optional<Dim> lane_index;
  int lanes = 1;                // width of varying values
  llvm::Value* mask = nullptr;  // lanes in use; null: all

  // --- value symbols: valid while a stage is emitted ---
  ValueSource* values = nullptr;
  int values_level = 0;  // Dims with value symbols are not cached at this level or above

  Place place(Dim d);
  llvm::Value* scalar(Dim d);                                 // of a Dim that is equal in all lanes
  llvm::Value* vector(Dim d);                                 // one i64 per lane
  llvm::Value* lane_0() { return indices_.at(*lane_index); }  // the lane index of the first lane

  Ir& ir;

 private:
  struct Level {
    llvm::Instruction* anchor = nullptr;
    std::unordered_map<Dim, llvm::Value*> scalars;
    std::unordered_map<Dim, llvm::Value*> vectors;
  };
  llvm::Instruction* anchor_of(int level) const;
  bool may_remember(Dim d, int level) const;
  llvm::Value* emit_scalar(Dim d);
  llvm::Value* emit_vector(Dim d);
  llvm::Value* sum(Dim d);
  llvm::Value* divide(Dim d);
  llvm::Value* divide_lanes(Dim d);

  std::vector<Level> levels_;
  std::unordered_map<Dim, Place> places_;
  std::unordered_map<Dim, llvm::Value*> indices_;
  llvm::Value* dims_;
  std::vector<Dim> symbols_;
};

}  // namespace gex::codegen
