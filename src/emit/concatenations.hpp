#pragma once
// Concatenations without a kernel: whoever computes a part writes it into its place in the result,
// and parts that lie elsewhere are copied there. Only for results that must be in memory anyway and
// where all parts but one are worth kernels of their own; else one kernel computes the cheap parts
// inside the concatenation.

#include <unordered_set>

#include "emit/launches.hpp"

namespace gex::emit {

class Concatenations {
 public:
  Concatenations(State& state, Memory& memory, Launches& launches)
      : state_(state), memory_(memory), launches_(launches) {}

  void choose(lower::FuseOptions& options);
  void place();
  bool is_placed(const Node* node) const { return placed_.contains(node); }
  void emit(const Node& node);
  // Whether other values lie inside the buffer: it must not be overwritten.
  bool holds_parts(program::BufferId id) const { return windowed_.contains(id); }

 private:
  State& state_;
  Memory& memory_;
  Launches& launches_;
  std::unordered_set<const Node*> placed_;
  std::unordered_set<program::BufferId> windowed_;
};

}  // namespace gex::emit
