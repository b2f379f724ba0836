#pragma once
// From an LLVM module to code in memory.

#include <memory>
#include <string>
#include <vector>

#include "codegen/llvm/target.hpp"

namespace llvm {
class MemoryBuffer;
class Module;
class TargetMachine;
}  // namespace llvm

namespace gex::codegen {

// Optimises and translates; one per thread.
class Compiler {
 public:
  Compiler();
  ~Compiler();
  void prepare(llvm::Module& module);  // sets triple and layout; before anything is emitted
  void optimise(llvm::Module& module);
  std::unique_ptr<llvm::MemoryBuffer> object(llvm::Module& module);
  std::string assembly(llvm::Module& module);

 private:
  std::unique_ptr<llvm::TargetMachine> machine_;
};

// Linked code; freed when the last owner lets go.
struct LinkedCode {
  std::vector<void*> functions;
  std::shared_ptr<const void> owner;
};

// Thread-safe. Functions in the order of `names`.
LinkedCode link(std::unique_ptr<llvm::MemoryBuffer> object, const std::vector<std::string>& names);

}  // namespace gex::codegen
