#pragma once
// Lines of the loop IR in generated code, for gdb and Linux perf. The text of each kernel, as it
// was when its code was emitted, is written into a folder where these tools find it.

#include <llvm/IR/DIBuilder.h>

#include <map>
#include <string>

#include "backend/cpu/llvm/code_names.hpp"
#include "loop/printed_lines.hpp"

namespace llvm::object {
class ObjectFile;
}
namespace gex::loop {
struct Kernel;
}

namespace gex::codegen {

// GEX_JITDUMP: the texts are written into its folder `loops`. Empty: code has no lines.
const std::string& folder_of_lines();

struct KernelLines {
  loop::PrintedKernel text;
  llvm::DISubprogram* function = nullptr;  // null: no lines
};

// Of one module; finish() before it is compiled.
class DebugLines {
 public:
  explicit DebugLines(llvm::Module& module);
  // The name of the next kernel, for people.
  void set_label(std::string label) { label_ = std::move(label); }
  KernelLines start(const loop::Kernel& kernel, llvm::Function& function);
  void finish() { builder_.finalize(); }

 private:
  llvm::DIBuilder builder_;
  llvm::DICompileUnit* unit_ = nullptr;
  std::string label_;
};

// By the name of the function; without entries if the object has no lines.
std::map<std::string, FunctionLines> lines_of_functions(const llvm::object::ObjectFile& object);

}  // namespace gex::codegen
