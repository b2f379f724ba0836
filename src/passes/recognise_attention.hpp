#pragma once
// matmul(softmax(matmul(q, k^T) * scale + mask), v) -> attention(q, k, v, mask), with the mask
// added or applied by where(seen, scores, -inf), also if key and value heads are repeated for
// groups of query heads (the repetition is then removed). Early, while softmax is one node. Only in
// f32 and f64: low floats round the scores, which the fused kernel does not.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool recognise_attention(Graph& graph, PassContext& context);
}
