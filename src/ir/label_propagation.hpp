#pragma once
// Labels survive rewrites: replacements of a node get its labels.

#include "ir/graph.hpp"

namespace gex {

// Create it before a rewrite inserts nodes before `place` (null: at the end of the graph).
class LabelPropagation {
 public:
  LabelPropagation(Graph& graph, Node* place)
      : graph_(graph), place_(place), before_(place == nullptr ? graph.last() : place->prev()) {}

  // Adds the labels of `from` to the nodes inserted there since; their own labels win.
  void apply(const Node& from);

 private:
  Graph& graph_;
  Node* place_;
  Node* before_;
};

}  // namespace gex
