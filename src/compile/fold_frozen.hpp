#pragma once
// What depends on frozen contents alone is computed once, by compiled code, while compiling.

#include <vector>

#include "compile/compile.hpp"

namespace gex::compile_detail {

// Runs after the passes. `frozen` grows by one entry, and the graph by one input, for each result
// that the rest of the graph reads; what computed it is removed. Returns how many nodes went.
int fold_frozen(Graph& graph, std::vector<FrozenInput>& frozen, const CompileOptions& options);

// Memory that lives as long as somebody holds it, aligned for vector loads.
std::shared_ptr<std::byte> aligned_memory(std::size_t bytes);

}  // namespace gex::compile_detail
