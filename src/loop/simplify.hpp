#pragma once
// Rules that the builder applies to a new expression. Every rule gives the same bits for every
// operand, NaN and -0 included (x + 0.0 stays: it turns -0 into +0); no rule needs a numerics
// policy.

#include <optional>
#include <span>

#include "loop/builder.hpp"

namespace gex::loop {

// Operands already have their types; constants of commutative primitives are on the right.
std::optional<Scalar> simplify_prim(ScalarBuilder& s, Prim prim, std::span<const Scalar> args);
std::optional<Scalar> simplify_cast(ScalarBuilder& s, Scalar value, DType to);

}  // namespace gex::loop
