#pragma once
// The distinct kernels of a program. Equal structures are one entry, so the layers of a model share
// code.

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cpu/kernels/choice.hpp"
#include "loop/kernel.hpp"
#include "program/kernel_abi.hpp"

namespace gex::compile_detail {

class KernelTable {
 public:
  // Entry of the canonical form; `symbols` gets the original sizes in the order of its dims.
  int add(const loop::Kernel& kernel, std::vector<Dim>& symbols);
  const std::vector<loop::Kernel>& kernels() const { return kernels_; }

  // A kernel of this table that computes an operand of a Choice, and where a launch has what it
  // needs.
  struct PrologueSpec {
    int kernel = -1;
    int operand = 0;
    int first_buffer = 0;
    int input_buffers = 0;
    int dims_begin = 0;
    bool operator==(const PrologueSpec&) const = default;
  };
  // A code of the program: a kernel of this table, or a Choice with kernels of it around.
  struct CodeSpec {
    std::string name;
    int kernel = -1;  // loop kernel, or the epilogue of the Choice
    std::optional<kernels::Problem> problem;
    int extra_buffers = 0;  // of the epilogue
    std::vector<PrologueSpec> prologues;
  };
  int add_loop_code(std::string name, int kernel);
  // Equal problems with equal code around them are one code.
  int add_choice_code(std::string name, kernels::Problem problem, int epilogue_kernel,
                      int extra_buffers, std::vector<PrologueSpec> prologues = {});
  const std::vector<CodeSpec>& codes() const { return codes_; }
  // What stands around a Choice. `function_of(kernel)` gives a kernel's code.
  static kernels::Attached attached(const CodeSpec& spec, const auto& function_of) {
    kernels::Attached result;
    if (spec.kernel >= 0)
      result.epilogue = {function_of(spec.kernel), spec.extra_buffers,
                         kernels::dims_count(*spec.problem), 0};
    for (const PrologueSpec& p : spec.prologues)
      result.prologues.push_back(
          {function_of(p.kernel), p.operand, p.first_buffer, p.input_buffers, p.dims_begin});
    return result;
  }
  // The functions of the codes, once those of the kernels are there.
  std::vector<program::Callable> bind(const std::vector<program::Callable>& functions) const;

  // As they were in another table.
  static KernelTable restored(std::vector<loop::Kernel> kernels, std::vector<CodeSpec> codes);

 private:
  std::vector<loop::Kernel> kernels_;
  std::unordered_multimap<Hash, int> by_hash_;
  std::vector<CodeSpec> codes_;
  std::unordered_map<std::string, int> code_by_key_;
};

}  // namespace gex::compile_detail
