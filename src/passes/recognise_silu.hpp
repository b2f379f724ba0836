#pragma once
// x * sigmoid(x) -> silu(x), in f32 and f64, where both round alike. Early, so that later passes
// see one op.

#include "passes/engine/pass.hpp"

namespace gex::passes {
Pass recognise_silu();
}
