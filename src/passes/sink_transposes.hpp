#pragma once
// transpose(f(transpose(x, p)), q) -> f(x) if q undoes p and f consists of elementwise ops: layout
// changes around a part of a network cancel. A transpose without a partner stays: it is an index
// map and costs nothing by itself.

#include "passes/engine/pass.hpp"

namespace gex::passes {
bool sink_transposes(Graph& graph, PassContext& context);
}
