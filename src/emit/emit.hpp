#pragma once
// From units to a Program: buffers for the values in memory, tied outputs in place if the old value
// is not read later, and one step per unit.

#include <cstdint>
#include <memory>
#include <vector>

#include "compile/compile.hpp"
#include "compile/frozen/frozen_plan.hpp"
#include "lower/fused_graph.hpp"
#include "program/program.hpp"

namespace gex::emit {

struct Emitted {
  program::Program program;
  std::string kernel_text;  // every fused graph, subgraphs included
  std::vector<lower::Remark> remarks;
  std::int64_t operators = 0;                      // nodes that compute something, before fusion
  std::vector<compile_detail::FrozenSlot> frozen;  // contents of the program's frozen constants
};

// The graph as a Program for `target`. Its functions are made afterwards by the target's backend.
Emitted emit(Graph& graph, const Signature& signature, const CompileOptions& options,
             const Target& target);

}  // namespace gex::emit
