#pragma once
// From units to a Program: buffers for the values that live in memory, ties in place where no later
// read of the old value exists, and one step for each unit.

#include <cstdint>
#include <memory>
#include <vector>

#include "compile/compile.hpp"
#include "compile/frozen/frozen_plan.hpp"
#include "emit/kernel_table.hpp"
#include "lower/fused_graph.hpp"
#include "program/program.hpp"

namespace gex::compile_detail {

struct Emitted {
  program::Program program;
  std::string kernel_text;  // every fused graph, subgraphs included
  std::vector<lower::Remark> remarks;
  std::int64_t operators = 0;      // nodes that compute something, before fusion
  std::vector<FrozenSlot> frozen;  // what lies behind the program's frozen constants
};

// `kernels` collects the distinct kernels that the program's codes need; their functions are filled
// in after code generation (bind_codes).
Emitted emit(Graph& graph, const Signature& signature, const CompileOptions& options,
             KernelTable& kernels);

}  // namespace gex::compile_detail
