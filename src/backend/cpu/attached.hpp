#pragma once
// Combines the functions of a Program's loop kernels into functions of its codes.

#include <span>
#include <vector>

#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/parsed_codes.hpp"
#include "program/kernel_abi.hpp"

namespace gex::backend::cpu {

// The kernels attached to a problem. `function_of(kernel)` returns the function of a kernel of the
// Program.
kernels::Attached attached_to(const ParsedCode& code, const auto& function_of) {
  kernels::Attached result;
  if (code.kernel >= 0)
    result.epilogue = {function_of(code.kernel), code.extra_buffers,
                       problems::dims_count(*code.problem), 0};
  for (const program::Code::Prologue& p : code.prologues)
    result.prologues.push_back(
        {function_of(p.kernel), p.operand, p.first_buffer, p.input_buffers, p.dims_begin});
  return result;
}

// `kernels`: a function for each kernel of the Program.
std::vector<program::Callable> functions_of_codes(std::span<const ParsedCode> codes,
                                                  std::span<const program::Callable> kernels);

}  // namespace gex::backend::cpu
