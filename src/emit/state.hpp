#pragma once
// State shared by the parts of one emission: the program so far, the buffers of values, the current
// step.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "backend/backend.hpp"
#include "emit/emit.hpp"
#include "ir/run_labels.hpp"
#include "lower/views.hpp"
#include "ops/core/problem_rule.hpp"

namespace gex::emit {

// An operand of a problem or a call.
using Operand = ops::StridedOperand;
using Units = std::vector<lower::Unit>;

struct State {
  State(Graph& of, const Signature& called_as, const CompileOptions& with, const Target& on)
      : graph(of),
        signature(called_as),
        options(with),
        target(on),
        backend(backend::backend_for(on.kind)),
        program(out.program) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Graph& graph;
  const Signature& signature;
  const CompileOptions& options;
  const Target& target;
  const backend::Backend& backend;
  Emitted out;
  program::Program& program;
  std::unordered_map<const Value*, program::BufferId> buffers;  // memory of values
  std::int64_t in_place = 0;                                    // results written over other values
  int segment = 0;                                              // where steps are added
  const Node* current = nullptr;
  RunLabels run_labels;  // of the current unit
};

}  // namespace gex::emit
