#pragma once
// matmul(a[b, m, k], b[k, n]) -> reshape(matmul(reshape(a, [b*m, k]), b)): one large product
// instead of b small ones with the same right operand. Not where the left operand is a view that
// lies in memory otherwise: it would have to be copied.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool flatten_matmuls(Graph& graph, PassContext& context);
}
