#pragma once
// Inputs and outputs of the program, in the order of the signature.

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emit/frozen_inputs.hpp"
#include "emit/launches.hpp"

namespace gex::emit {

class Boundary {
 public:
  Boundary(State& state, Memory& memory, Launches& launches, FrozenInputs& frozen)
      : state_(state), memory_(memory), launches_(launches), frozen_(frozen) {}

  void define_inputs();
  std::unordered_set<const Value*> choose_views();
  void define_outputs(const Units& units);
  void finish_outputs();
  // Whether a copy at the end of the program reads the value's memory.
  bool copies(const Value* value) const;

 private:
  // Where the values of outputs come from.
  struct OutputSources {
    std::unordered_set<const Value*> from_calls;
    std::unordered_map<const Value*, int> tied_to;  // graph inputs whose memory they are written to
    std::unordered_map<const Value*, int> given;    // outputs that already have the value
  };
  program::OutputDesc tensor_output(const Signature::Output& slot, OutputSources& sources);
  int slot_of_input(int graph_input) const;
  bool is_written(const Value* input) const;
  void copy_to_output(Value* value, program::BufferId output);

  struct OutputCopy {
    Value* value;
    program::BufferId output;
  };

  State& state_;
  Memory& memory_;
  Launches& launches_;
  FrozenInputs& frozen_;
  std::vector<OutputCopy> output_copies_;  // made after all steps
};

}  // namespace gex::emit
