#pragma once
// Collects the kernels and codes of a Program while it is emitted. Equal structures are one entry,
// so the layers of a model share code.

#include <string>
#include <unordered_map>
#include <vector>

#include "loop/kernel.hpp"
#include "program/program.hpp"

namespace gex::emit {

class CodeTable {
 public:
  explicit CodeTable(program::Program& program) : program_(program) {}

  // Number of the kernel's canonical form in Program::kernels. `symbols` gets the original sizes in
  // the order of its dims.
  int add_kernel(const loop::Kernel& kernel, std::vector<Dim>& symbols);
  // Number of an equal code, or of this one. Names do not count.
  int add_code(program::Code code);

 private:
  program::Program& program_;
  std::vector<loop::Kernel> kernels_;  // as in the Program
  std::unordered_multimap<Hash, int> by_hash_;
  std::unordered_map<std::string, int> code_by_key_;
};

}  // namespace gex::emit
