#pragma once
// Labels survive rewrites: what takes a node's place gets them.

#include "ir/graph.hpp"

namespace gex {

// Made before a rewrite puts nodes before `place` (null: at the end of the graph).
class CarryLabels {
 public:
  CarryLabels(Graph& graph, Node* place)
      : graph_(graph), place_(place), before_(place == nullptr ? graph.last() : place->prev()) {}

  // Gives the nodes that were put there since the labels of `from`, beside their own, which win.
  void give(const Node& from);

 private:
  Graph& graph_;
  Node* place_;
  Node* before_;
};

}  // namespace gex
