#pragma once
// An if with a known condition becomes its branch; a while whose condition is false at once becomes
// its inputs. Interacts with folding, also inside subgraphs.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool inline_control(Graph& graph, PassContext& context);
}
