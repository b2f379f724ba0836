#pragma once
// Takes what depends only on frozen contents out of the graph, to be computed once.

#include <memory>
#include <vector>

#include "compile/compile.hpp"

namespace gex::compile_detail {

struct FoldedPart {
  std::unique_ptr<Graph> graph;  // over the frozen inputs in order; null if there is nothing
  int nodes = 0;                 // number of removed nodes
};

// Runs after the passes. For each result of the part that the rest of the graph reads, `frozen`
// gets one entry without memory and the graph one input.
FoldedPart fold_frozen(Graph& graph, std::vector<FrozenInput>& frozen);

}  // namespace gex::compile_detail
