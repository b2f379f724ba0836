#pragma once
// Accesses across a tile: elements that neighbouring lanes read far apart, but neighbouring rows of
// the tile side by side. They go through a block of memory on the stack that has a vector for each
// row: filled from vectors along the rows before the rows run, or stored along them afterwards.

#include <vector>

#include "backend/cpu/llvm/scope.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen {

// Part of a tile: `count` rows from `first`, and the lanes from `column`.
struct TilePart {
  llvm::Value* first;
  llvm::Value* count;
  llvm::Value* column;
  llvm::Value* width;  // of the rows
  // The points [begin, end) of the range that is computed, relative to the first row's first one.
  llvm::Value* begin;
  llvm::Value* end;
};

class TileBlocks {
 public:
  // The grid's last two axes are the rows and the lanes; `pointer` is that of a uniform offset.
  TileBlocks(Scope& scope, const loop::Kernel& kernel, int rows,
             std::function<llvm::Value*(int buffer, Dim offset)> pointer);

  bool empty() const { return blocks_.empty(); }
  // Before and after the rows of a part.
  void fill(const TilePart& part);
  void flush(const TilePart& part);

  void set_row(llvm::Value* row_in_part) { row_ = row_in_part; }
  // The vector of the current row; null: the access does not go through a block.
  llvm::Value* vector_of(int buffer, Dim offset, bool store);

 private:
  struct Block {
    int buffer;
    Dim offset;
    Dim rest;  // of the offset, for row 0 and lane 0
    Dim lane_step;
    int row_step;  // 1 or -1
    bool store;
    llvm::Type* type;
    llvm::Value* memory;
  };
  void add(int buffer, const std::vector<Dim>& index, bool store);
  bool is_outer(Dim d) const;
  llvm::Value* element(const Block& block, llvm::Value* row, llvm::Value* lane);
  llvm::Value* slot(const Block& block, llvm::Value* row, llvm::Value* lane);
  void move_squares(const Block& block, const TilePart& part);
  void move_elements(const Block& block, const TilePart& part);
  std::vector<llvm::Value*> transposed(std::vector<llvm::Value*> vectors);
  void move(const TilePart& part, bool store);

  Scope& scope_;
  Ir& ir_;
  const loop::Kernel& kernel_;
  int rows_;
  std::function<llvm::Value*(int, Dim)> pointer_;
  std::vector<Block> blocks_;
  llvm::Value* row_ = nullptr;
};

}  // namespace gex::codegen
