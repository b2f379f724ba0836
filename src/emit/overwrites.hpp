#pragma once
// Results written over dead temporaries and operands.

#include "emit/boundary.hpp"
#include "emit/concatenations.hpp"
#include "emit/ties.hpp"

namespace gex::emit {

class Overwrites {
 public:
  Overwrites(State& state, Memory& memory, Launches& launches, const Boundary& boundary,
             const Ties& ties, const Concatenations& concatenations)
      : state_(state),
        memory_(memory),
        launches_(launches),
        boundary_(boundary),
        ties_(ties),
        concatenations_(concatenations) {}

  void place_written(const Units& units);
  void emit_scatter(const lower::Unit& unit, const Units& units, std::size_t position);

 private:
  // Whether a later unit, or a copy at the end, reads the value's memory.
  bool read_after(const Units& units, std::size_t position, const Value* value) const;
  // Whether the scatter may write in the memory of its operand, a temporary that dies here.
  bool can_overwrite(const Node& scatter, program::BufferId base, const Units& units,
                     std::size_t position) const;

  State& state_;
  Memory& memory_;
  Launches& launches_;
  const Boundary& boundary_;
  const Ties& ties_;
  const Concatenations& concatenations_;
};

}  // namespace gex::emit
