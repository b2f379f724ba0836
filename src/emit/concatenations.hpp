#pragma once
// Concatenations without a kernel: the producer of a part writes it directly into the result, and
// other parts are copied there. Only for results that must be in memory anyway, if all parts but at
// most one are worth their own kernels, or if one kernel would have to select among too many parts;
// otherwise one kernel computes the cheap parts inside the concatenation.

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
  // Whether the buffer contains other values: then it must not be overwritten.
  bool holds_parts(program::BufferId id) const { return windowed_.contains(id); }

 private:
  State& state_;
  Memory& memory_;
  Launches& launches_;
  std::unordered_set<const Node*> placed_;
  std::unordered_set<program::BufferId> windowed_;
};

}  // namespace gex::emit
