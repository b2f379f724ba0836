#pragma once
// Sizes that determine the value of a symbol.

#include <cstdint>
#include <optional>

#include "base/dim/dim.hpp"

namespace gex::program {

// A size scale*symbol + rest with a positive scale: the symbol is (size - rest) / scale.
struct SizeOfSymbol {
  Dim symbol;
  std::int64_t scale = 1, rest = 0;
};

std::optional<SizeOfSymbol> solve_size(Dim size);

}  // namespace gex::program
