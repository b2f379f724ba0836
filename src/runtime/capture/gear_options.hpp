#pragma once
// Which sizes share a Capture; see gears.hpp.

#include <cstdint>
#include <vector>

#include "base/dim/dim.hpp"

namespace gex::runtime {

struct GearOptions {
  enum class Policy : std::uint8_t {
    exact,      // a Capture for each shape key
    automatic,  // the first `exact_first` keys as they are, then powers of two
    listed,     // the sizes of `ladders`; sizes that no row covers are their own gear
  };
  Policy policy = Policy::exact;
  int exact_first = 2;
  bool refuse_others = false;  // listed: sizes that are no row are an error
  // Symbols that change gear together, and their sizes row by row. The first row that covers all of
  // them serves. A ladder of the one symbol Dim 0 is for every symbol that no other one names.
  struct Ladder {
    std::vector<Dim> symbols;
    std::vector<std::vector<std::int64_t>> rows;
  };
  std::vector<Ladder> ladders;
};

}  // namespace gex::runtime
