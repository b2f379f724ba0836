#pragma once
// Conveniences for callers: promotion of operands, axes counted from the end.

#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"

namespace gex::capi {

// The operands of an elementwise op with a common dtype: those that differ are cast to PyTorch's
// promotion of all of them; other ops' operands are returned unchanged.
std::vector<Value*> promoted(Graph& graph, const OpDef& op, std::vector<Value*> operands);

// Negative entries of `axis`, `axes` and `perm` count from the end of the first operand's shape,
// and the axes of a reduction may come in any order.
void count_axes_from_start(const OpDef& op, const std::vector<Value*>& operands,
                           std::vector<std::pair<std::string, AttrValue>>& attrs);

}  // namespace gex::capi
