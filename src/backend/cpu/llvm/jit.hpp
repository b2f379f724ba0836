#pragma once
// From an LLVM module to code in memory.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/llvm/target.hpp"

namespace llvm {
class MemoryBuffer;
class Module;
template <typename T>
class SmallVectorImpl;
class TargetMachine;
}  // namespace llvm

namespace gex::codegen {

// quick: for generic code, which the caller waits for; thorough: for static code, compiled in the
// background. Both compute the same bits.
enum class Effort { quick, thorough };

// Optimises and translates; one per thread.
class Compiler {
 public:
  explicit Compiler(Effort effort);  // for this machine and this process
  // For object files that another process links: position-independent, small code model.
  explicit Compiler(const Target& target);
  ~Compiler();
  void prepare(llvm::Module& module);  // sets triple and layout; before anything is emitted
  void optimise(llvm::Module& module);
  std::unique_ptr<llvm::MemoryBuffer> object(llvm::Module& module);
  std::string assembly(llvm::Module& module);

 private:
  void write(llvm::Module& module, llvm::SmallVectorImpl<char>& bytes, bool object);

  Effort effort_;
  std::unique_ptr<llvm::TargetMachine> machine_;
};

// Linked code; freed with its last owner.
struct LinkedCode {
  std::vector<void*> functions;
  std::shared_ptr<const void> owner;
};

struct FunctionNames {
  std::string symbol;  // in the object
  std::string shown;   // by debuggers and profilers
};

// Thread-safe. Functions in the order of their names.
LinkedCode link(std::unique_ptr<llvm::MemoryBuffer> object,
                std::span<const FunctionNames> functions);

}  // namespace gex::codegen
