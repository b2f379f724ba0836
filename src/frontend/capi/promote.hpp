#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace gex::capi {

// Operands of an elementwise op as it wants them: of one dtype. Those that differ are cast to
// PyTorch's promotion of all of them; everything else is returned as it is.
std::vector<Value*> promoted(Graph& graph, const OpDef& op, std::vector<Value*> operands);

}  // namespace gex::capi
