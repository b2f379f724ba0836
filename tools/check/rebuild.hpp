#pragma once
// Copies a graph with changes, applying the shape rules; unused parts are dropped.

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
  std::unordered_map<const Node*, std::size_t> inlined;       // replaced by this subgraph of it
  std::unordered_map<const Node*, std::size_t> default_attr;  // this attribute gets its default
  std::unordered_set<std::size_t> dropped_outputs;
  bool drop_ties = false;
  std::function<Dim(Dim)> size;  // applied to every size in types and attributes; empty: unchanged
};

// UserError if the changed graph violates a shape rule or does not verify.
std::unique_ptr<Graph> rebuild(const Graph& graph, const Changes& changes);

}  // namespace gex::check
