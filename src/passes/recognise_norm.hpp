#pragma once
// Root-mean-square and layer normalisation written out become one op, in f32 and f64, where all
// steps round alike. Early: later passes and users' patterns see one word; its expansion is the
// same arithmetic, and fusion makes it one kernel.

#include "passes/pass.hpp"

namespace gex::passes {
Pass recognise_norm();
}
