#pragma once
// Steps of the program: loop kernels, copies, and the steps of other parts.

#include <deque>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "emit/code_table.hpp"
#include "emit/memory.hpp"

namespace gex::emit {

Dim work_of(const loop::Kernel& kernel);  // for Launch::work

class Launches {
 public:
  Launches(State& state, Memory& memory) : state_(state), memory_(memory), codes_(state.program) {}

  void emit_loop(const lower::Unit& unit);
  void launch(const loop::Kernel& kernel, const std::string& name,
              std::vector<program::BufferId> buffers, std::vector<bool> writes);
  void copy(program::BufferId dst, const std::vector<Dim>& dst_strides, program::BufferId src,
            const std::vector<Dim>& src_strides, Dim src_offset, const Type& type, const char* why);
  // Sets the launch's layout on the target (its code is already set); a workspace is one more
  // buffer.
  void apply(const backend::LaunchPlan& plan, program::Launch& launch);
  void add_step(program::Step step);
  // Fills Emitted::unit_of_step, after the planner has moved, added and merged steps.
  void find_units_of_steps();

  program::BufferId materialised(Value* value);  // in its own layout, copied there if a view
  Operand placed(Value* value);                  // the result of materialised()

  CodeTable& codes() { return codes_; }
  // Codes whose launches may be merged with others into one kernel.
  bool can_group() const { return !mergeable_codes_.empty() || !library_codes_.empty(); }
  bool is_mergeable(int code) const { return mergeable_codes_.contains(code); }
  bool is_library(int code) const { return library_codes_.contains(code); }
  // Codes whose launches may be phases of a persistent kernel.
  bool has_phases() const { return !phases_.empty(); }
  bool can_be_phase(int code) const { return phases_.contains(code); }
  bool can_exchange(int code, std::size_t buffer) const {
    const auto found = phases_.find(code);
    return found != phases_.end() && buffer < found->second.size() && found->second[buffer];
  }

 private:
  State& state_;
  Memory& memory_;
  CodeTable codes_;
  std::unordered_set<int> mergeable_codes_, library_codes_;
  std::map<int, std::vector<bool>> phases_;  // by code: LaunchPlan::exchangeable
  // Units by the identity of their steps, in step order: the planner may move steps.
  std::map<std::vector<int>, std::deque<int>> units_by_step_;
};

}  // namespace gex::emit
