#pragma once
// Which sizes share a Capture; see gears.hpp.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/dim.hpp"

namespace gex::runtime {

struct GearOptions {
  enum class Policy : std::uint8_t {
    exact,      // a Capture for each shape key
    automatic,  // the first `exact_first` keys as they are, then powers of two
    listed,     // the sizes of `ladders`; a size above the last is its own gear
  };
  Policy policy = Policy::exact;
  int exact_first = 2;
  bool refuse_others = false;  // listed: a size that is no gear is an error
  // By symbol; the one with the Dim 0 is for all other symbols. Sizes ascend.
  std::vector<std::pair<Dim, std::vector<std::int64_t>>> ladders;
};

}  // namespace gex::runtime
