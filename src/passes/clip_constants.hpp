#pragma once
// Constants that a cast to a narrower float would make infinite become that dtype's largest number
// instead, with a remark. Changes results, so only on request; before fold, which would do the
// cast.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool clip_constants(Graph& graph, PassContext& context);
}
