#pragma once
// Which sizes share a Capture; see gears.hpp.

#include <cstdint>
#include <vector>

#include "base/dim/dim.hpp"

namespace gex::runtime {

struct GearOptions {
  enum class Policy : std::uint8_t {
    exact,      // a Capture for each shape key
    automatic,  // the first `exact_first` keys exactly, then powers of two
    listed,     // the sizes of `ladders`; sizes that no row covers get a Capture of their own
  };
  Policy policy = Policy::exact;
  int exact_first = 2;
  bool refuse_others = false;  // listed: sizes that are not in a row are an error
  // Symbols that change gear together, and their sizes row by row. The first row that covers all of
  // them is used. A ladder whose only symbol is Dim 0 applies to every symbol that no other ladder
  // names.
  struct Ladder {
    std::vector<Dim> symbols;
    std::vector<std::vector<std::int64_t>> rows;
  };
  std::vector<Ladder> ladders;
};

}  // namespace gex::runtime
