#pragma once
// New contents of inputs. A graph is pure: every use of an input reads its contents from before the
// call. So an input must not be overwritten while a unit or a copy reads it later.

#include <unordered_map>
#include <vector>

#include "emit/launches.hpp"

namespace gex::emit {

class Ties {
 public:
  Ties(State& state, Memory& memory, Launches& launches)
      : state_(state), memory_(memory), launches_(launches) {}

  void lay_out();
  void place(const Units& units);
  void emit_copies_before(const lower::Unit& unit);
  void emit_copies();                        // after all units
  bool is_copied(const Value* input) const;  // into another input
  // Whether a copy at the end of the program reads the value's memory.
  bool copies(const Value* value) const;

 private:
  struct TieCopy {
    Value* value;
    Value* input;
  };
  bool place_scatter(const Units& units, const Tie& tie);
  // Whether units[writer] may overwrite the memory of `input`: copies that read it are moved before
  // that unit.
  bool copy_before(const Units& units, std::size_t writer, const Value* input);
  bool collect_copies(const Units& units, std::size_t writer, const Value* source,
                      std::vector<TieCopy>& copies) const;
  void emit_copy(const TieCopy& copy, const Operand& from);

  State& state_;
  Memory& memory_;
  Launches& launches_;
  std::vector<TieCopy> tie_copies_;  // made after all units
  std::unordered_map<const lower::Unit*, std::vector<TieCopy>> copies_before_;
};

}  // namespace gex::emit
