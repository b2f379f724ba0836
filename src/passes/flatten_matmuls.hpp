#pragma once
// matmul(a[b, m, k], b[k, n]) -> reshape(matmul(reshape(a, [b*m, k]), b)): one large matmul instead
// of b small ones with the same right operand. Not if the left operand is a view with another
// memory layout: it would have to be copied.

#include "passes/engine/pass.hpp"

namespace gex::passes {
Pass flatten_matmuls();
}
