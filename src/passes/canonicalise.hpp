#pragma once
// Identities that are exact in every dtype, including NaN and signed zero: x*1, x-0, x/1, casts to
// the same dtype, views that change nothing, chains of reshapes and transposes, repeated idempotent
// ops. Each rule starts with its algebra.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool canonicalise(Graph& graph, PassContext& context);
}
