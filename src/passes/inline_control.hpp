#pragma once
// if with a condition that is known becomes the branch it takes; while whose condition is false at
// once becomes its inputs. With folding, also inside subgraphs, one thing leads to the other.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool inline_control(Graph& graph, PassContext& context);
}
