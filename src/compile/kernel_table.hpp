#pragma once
// The distinct kernels of a program. Equal structures are one entry, so the layers of a model share
// code.

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "loop/kernel.hpp"
#include "program/kernel_abi.hpp"

namespace gex::compile_detail {

class KernelTable {
 public:
  // Entry of the canonical form; `symbols` gets the original sizes in the order of its dims.
  int add(const loop::Kernel& kernel, std::vector<Dim>& symbols);
  const std::vector<loop::Kernel>& kernels() const { return kernels_; }

  // A code of the program: a kernel of this table, or a bound Choice made once its epilogue is
  // compiled.
  struct CodeSpec {
    std::string name;
    int kernel = -1;  // loop kernel, or the epilogue of `make`
    std::function<program::Callable(const std::optional<program::Callable>& epilogue)> make;
  };
  int add_loop_code(std::string name, int kernel);
  // `key` identifies the problem: equal problems with equal epilogues are one code.
  int add_choice_code(
      std::string name, const std::string& key, int epilogue_kernel,
      std::function<program::Callable(const std::optional<program::Callable>&)> make);
  const std::vector<CodeSpec>& codes() const { return codes_; }

 private:
  std::vector<loop::Kernel> kernels_;
  std::unordered_multimap<Hash, int> by_hash_;
  std::vector<CodeSpec> codes_;
  std::unordered_map<std::string, int> code_by_key_;
};

}  // namespace gex::compile_detail
