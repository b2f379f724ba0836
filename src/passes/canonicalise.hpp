#pragma once
// Identities that are exact in every dtype, NaN and signed zero included: x*1, x-0, x/1, casts to
// the same dtype, views that change nothing, chains of reshapes and transposes, idempotent ops
// twice. Each rule opens with its algebra.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool canonicalise(Graph& graph, PassContext& context);
}
