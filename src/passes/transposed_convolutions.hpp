#pragma once
// Transposed convolutions with steps and frozen weights as one kernel that reads packed weights,
// for targets that have it. Others, and weights that change, are expanded to convolutions of
// phases.

#include "passes/engine/pass.hpp"

namespace gex::passes {
Pass select_transposed_convolutions();
}
