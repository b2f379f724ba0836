#pragma once
// matmul(softmax(matmul(q, k^T) * scale + mask), v) -> attention(q, k, v, mask), with the mask
// added or by where(seen, scores, -inf), also where key and value heads are repeated for groups of
// query heads (they are then not repeated at all). Early, while softmax is one node. Only in f32
// and f64: low floats round the scores, and the one kernel does not.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool recognise_attention(Graph& graph, PassContext& context);
}
