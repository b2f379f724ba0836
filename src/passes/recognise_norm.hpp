#pragma once
// Recognises RMS and layer norms, in f32 and f64, where all steps round alike: the variance as a
// mean of squares or as the op, its root as rsqrt, as 1/sqrt (the same bits) or as a divisor (the
// op's `divide`). A group norm is a layer norm between two reshapes. Early: later passes and users'
// patterns see one op; its expansion is the same arithmetic, and fusion makes it one kernel.

#include "passes/engine/pass.hpp"

namespace gex::passes {
Pass recognise_norm();
}
