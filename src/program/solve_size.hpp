#pragma once
// Sizes that tell the value of a symbol.

#include <cstdint>
#include <optional>

#include "base/dim/dim.hpp"

namespace gex::program {

// A size that is scale*symbol + rest, with a positive scale: (size - rest) / scale is the symbol.
struct SizeOfSymbol {
  Dim symbol;
  std::int64_t scale = 1, rest = 0;
};

std::optional<SizeOfSymbol> solve_size(Dim size);

}  // namespace gex::program
