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

// A fused unit, for reports.
struct EmittedUnit {
  lower::Unit::Kind kind = lower::Unit::Kind::loop;
  std::string label;
  std::vector<const Node*> nodes;  // of the graph that was emitted
};

struct Emitted {
  program::Program program;
  std::string kernel_text;  // every fused graph, subgraphs included
  std::vector<lower::Remark> remarks;
  std::string overlap;  // what was decided about independent branches; empty if there are none
  std::int64_t operators = 0;                      // nodes that compute something, before fusion
  std::vector<compile_detail::FrozenSlot> frozen;  // contents of the program's frozen constants
  std::vector<EmittedUnit> units;
  // By segment, then by step: the number of its unit, or -1.
  std::vector<std::vector<int>> unit_of_step;
};

// The graph as a Program for `target`. Its functions are made afterwards by the target's backend.
Emitted emit(Graph& graph, const Signature& signature, const CompileOptions& options,
             const Target& target);

}  // namespace gex::emit
