#pragma once
// Collects the kernels and codes of a Program during emission. Equal structures share one entry, so
// the layers of a model share code.

#include <string>
#include <unordered_map>
#include <vector>

#include "loop/kernel.hpp"
#include "program/program.hpp"

namespace gex::emit {

class CodeTable {
 public:
  explicit CodeTable(program::Program& program) : program_(program) {}

  // The number of the kernel's canonical form in Program::kernels. `symbols` receives the original
  // sizes in the order of its dims.
  int add_kernel(const loop::Kernel& kernel, std::vector<Dim>& symbols);
  // The number of an equal code, or of this one. Names are ignored.
  int add_code(program::Code code);

 private:
  program::Program& program_;
  std::vector<loop::Kernel> kernels_;  // as in the Program
  std::unordered_multimap<Hash, int> by_hash_;
  std::unordered_map<std::string, int> code_by_key_;
};

}  // namespace gex::emit
