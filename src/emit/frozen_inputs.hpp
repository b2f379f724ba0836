#pragma once
// Frozen inputs, and packed copies of them in the layout that the target's kernels read. Decided
// here, made by frozen_plan.cpp.

#include <string>
#include <unordered_map>
#include <vector>

#include "emit/memory.hpp"

namespace gex::emit {

class FrozenInputs {
 public:
  FrozenInputs(State& state, Memory& memory) : state_(state), memory_(memory) {}

  void define();
  bool is_frozen(const Value* value) const;
  // Makes the launch read operand `k` in the target's packed layout, if it never changes.
  void pack_operand(ops::ProblemLaunch& plan, int k, program::Launch& launch);

 private:
  program::BufferId add(program::BufferDesc desc, compile_detail::FrozenSlot slot, bool contents);
  bool has_contents(program::BufferId id) const;

  State& state_;
  Memory& memory_;
  std::vector<bool> contents_;  // by slot
  std::unordered_map<std::string, program::BufferId> packed_;
};

}  // namespace gex::emit
