// The CPU generator is not part of this program; nothing here compiles for the CPU.

#include "backend/cpu/generator.hpp"

namespace gex::codegen {

Generator* llvm_generator(std::string* why_not) {
  if (why_not != nullptr) *why_not = "built without the CPU generator";
  return nullptr;
}

}  // namespace gex::codegen
