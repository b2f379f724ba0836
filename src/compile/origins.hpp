#pragma once
// Which nodes became which launch, and why neighbouring nodes were not fused: written by every
// compile, read only by reports. Nodes are numbered in the order of CompileReport::graph_text,
// nodes of subgraphs after the node that contains them; -1 is a node that is not in the text.

#include <cstdint>
#include <string>
#include <vector>

namespace gex {

struct Origins {
  struct Unit {
    std::string kind, label;  // loop, contraction, scatter or step; "add+gelu+sum"
    std::vector<int> nodes;
  };
  // Two neighbours that could have been one launch, and why they are two.
  struct Separate {
    int node = -1, other = -1;
    std::string reason;
  };
  // One run of a pass.
  struct PassRun {
    std::string name;
    bool changed = false;
    std::int64_t count = 0, nodes_before = 0, nodes_after = 0;
    double seconds = 0;
  };
  std::vector<Unit> units;
  // By segment of the Program, then by step: the unit it is made of, or -1.
  std::vector<std::vector<int>> unit_of_step;
  std::vector<Separate> separate;
  std::vector<PassRun> passes;
};

}  // namespace gex
