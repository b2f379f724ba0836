#pragma once
// What depends on frozen contents alone is taken out of the graph, to be computed once.

#include <memory>
#include <vector>

#include "compile/compile.hpp"

namespace gex::compile_detail {

struct FoldedPart {
  std::unique_ptr<Graph> graph;  // of the frozen inputs in their order; null if there is nothing
  int nodes = 0;                 // how many went
};

// Runs after the passes. `frozen` grows by one entry without memory, and the graph by one input,
// for each result of the part that the rest of the graph reads.
FoldedPart fold_frozen(Graph& graph, std::vector<FrozenInput>& frozen);

}  // namespace gex::compile_detail
