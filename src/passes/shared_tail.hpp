#pragma once
// What happens to several values alike, node by node: a bias is added to each, each is cast. For
// values that are concatenated along their last axis it can be done once.

#include <vector>

#include "ir/graph.hpp"

namespace gex::passes {

// The only reader of `value`, if it computes each element from the value's element and at most one
// number per column; else null.
Node* only_by_columns(const Value* value);

class SharedTail {
 public:
  // `starts` have one dtype and equal sizes except for the last, which is constant.
  explicit SharedTail(std::vector<Value*> starts);

  const std::vector<Value*>& ends() const { return ends_; }
  // Whether it ended because a per-column operand is computed by the graph in between.
  bool waits() const { return waits_; }

  // The concatenated ends, computed from the concatenated starts, at the insertion point.
  Value* make(Graph& graph, Value* starts) const;
  // Call it after the ends have no readers.
  void erase(Graph& graph) const;

 private:
  // One node of each chain, all with the same op. Null for a chain without this node: it gets the
  // op's neutral number.
  struct Step {
    std::vector<Node*> nodes;
    std::vector<Value*> rows;  // per-column operands, if the nodes have such
    std::vector<Dim> columns;
    int row_operand = -1;
    const Node* model = nullptr;  // one of the nodes
  };
  static Value* side_by_side(Graph& graph, const Step& step, DType dtype);
  bool advance();

  std::vector<Value*> ends_;
  std::vector<Step> steps_;
  bool waits_ = false;
};

}  // namespace gex::passes
