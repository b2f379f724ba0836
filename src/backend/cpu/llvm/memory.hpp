#pragma once
// Loads and stores of a kernel's buffers: contiguous, uniform, strided and gathered, masked and
// predicated, plain and read-modify-write.

#include <vector>

#include "backend/cpu/llvm/scope.hpp"
#include "backend/cpu/llvm/tile_blocks.hpp"
#include "loop/kernel.hpp"

namespace gex::codegen {

class Memory {
 public:
  // `lane_locals`: each lane is a separate grid point, so locals are vectors on the stack.
  Memory(Scope& scope, const loop::Kernel& kernel, llvm::Value* buffers, llvm::Value* scratch,
         bool lane_locals);

  bool is_lane_local(int buffer) const;

  // The register value of an element; `fill` if `pred` (may be null) is false.
  llvm::Value* load(int buffer, Dim offset, llvm::Value* pred, llvm::Value* fill, bool varying);

  // A store in two steps, so that all loads of a stage come before its first store.
  struct Pending {
    const loop::Store* store;
    Dim offset;
    llvm::Value* value;
    llvm::Value* pred;  // may be null
    bool varying;       // runs once per lane
    llvm::Value* pointers;
    enum class Kind { one, contiguous, scattered } kind;
    bool distinct;  // no two lanes have the same address
    bool in_block;  // `pointers` is a vector of TileBlocks
  };
  Pending prepare(const loop::Store& store, Dim offset, llvm::Value* value, llvm::Value* pred,
                  bool varying);
  void commit(const Pending& pending);

  llvm::Value* offset_pointer(int buffer, Dim uniform_offset);
  TileBlocks* blocks = nullptr;  // of the tile that is emitted

 private:
  struct Address {
    Pending::Kind kind;
    llvm::Value* pointers;  // one pointer, or one per lane if scattered
    bool distinct;
    int step = 0;                   // between neighbouring lanes, if vector loads can be used
    llvm::Value* lane_0 = nullptr;  // the first lane's pointer, with a step
  };
  llvm::Value* base(int buffer);
  Address address(int buffer, Dim offset);
  llvm::Value* in_block(int buffer, Dim offset, llvm::Value* pred, bool store);
  llvm::Value* lane_slot(int buffer, Dim offset);
  llvm::Value* combined_mask(llvm::Value* pred) const;
  llvm::Value* load_one(llvm::Type* type, llvm::Value* pointer, llvm::Value* pred, DType dtype);
  llvm::Value* gather(llvm::Type* type, llvm::Value* pointers, llvm::Value* mask, DType dtype);
  void store_one(const Pending& p);
  void store_lane_by_lane(const Pending& p);
  void update(llvm::Value* pointer, llvm::Value* value, const loop::Store& store);
  void update_atomically(llvm::Value* pointer, llvm::Value* value, const loop::Store& store);
  llvm::Value* combine(const loop::Store& store, llvm::Value* old, llvm::Value* value);
  llvm::Value* nowhere();
  const loop::Buffer& desc(int buffer) const {
    return kernel_.buffers[static_cast<std::size_t>(buffer)];
  }

  Scope& scope_;
  Ir& ir_;
  const loop::Kernel& kernel_;
  llvm::Value* buffers_;
  llvm::Value* scratch_;
  bool lane_locals_;
  std::vector<llvm::Value*> bases_;
  llvm::Value* nowhere_ = nullptr;
};

}  // namespace gex::codegen
