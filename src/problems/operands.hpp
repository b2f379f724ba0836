#pragma once
// Small types used by several problems. Included by CPU kernels that are compiled once per
// instruction set: nothing here may emit code of the standard library.

#include <cstdint>

namespace gex::problems {

// A set of operands, as a bit mask of their numbers.
using OperandSet = int;
constexpr bool contains(OperandSet set, int operand) { return (set >> operand & 1) != 0; }

enum class MaskKind : std::uint8_t { none, additive, boolean };
enum class Causal : std::uint8_t { none, top_left, bottom_right };

}  // namespace gex::problems
