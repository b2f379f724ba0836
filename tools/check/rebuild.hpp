#pragma once
// A copy of a graph with some things changed, through the shape rules; what nothing needs any more
// is left out.

#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.hpp"

namespace gex::check {

struct Changes {
  std::unordered_set<const Node*> cut;                        // results that are used become inputs
  std::unordered_map<const Node*, std::size_t> bypass;        // result 0 becomes this input of it
  std::unordered_map<const Node*, std::size_t> inlined;       // becomes this subgraph of it
  std::unordered_map<const Node*, std::size_t> default_attr;  // this attribute gets its default
  std::unordered_set<std::size_t> dropped_outputs;
  bool drop_ties = false;
  std::function<Dim(Dim)> size;  // applied to every size in types and attributes; empty: none
};

// UserError where the changed graph breaks a shape rule or can't be verified.
std::unique_ptr<Graph> rebuild(const Graph& graph, const Changes& changes);

}  // namespace gex::check
