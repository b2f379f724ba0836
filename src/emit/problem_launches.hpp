#pragma once
// Problems as launches: operands as strided memory, epilogues and prologues attached.

#include "emit/frozen_inputs.hpp"
#include "emit/launches.hpp"

namespace gex::emit {

class ProblemLaunches {
 public:
  ProblemLaunches(State& state, Memory& memory, Launches& launches, FrozenInputs& frozen)
      : state_(state), memory_(memory), launches_(launches), frozen_(frozen) {}

  void emit(const lower::Unit& unit);

 private:
  class UnitContext;
  void attach_epilogue(const lower::Unit& unit, program::Launch& launch, program::Code& code,
                       backend::AttachedKernels& attached);
  void attach_prologues(const lower::Unit& unit, program::Launch& launch, program::Code& code,
                        backend::AttachedKernels& attached);

  State& state_;
  Memory& memory_;
  Launches& launches_;
  FrozenInputs& frozen_;
};

}  // namespace gex::emit
