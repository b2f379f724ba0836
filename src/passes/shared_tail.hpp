#pragma once
// What becomes of several values alike, node by node: a bias is added to each, each is cast. Values
// that lie side by side along their last axis can be treated so all at once.

#include <vector>

#include "ir/graph.hpp"

namespace gex::passes {

// The node that alone reads `value` if it computes each element from the value's element and at
// most a number for its column; else null.
Node* only_by_columns(const Value* value);

class SharedTail {
 public:
  // `starts` have one dtype and equal sizes but for the last, which is a number.
  explicit SharedTail(std::vector<Value*> starts);

  const std::vector<Value*>& ends() const { return ends_; }
  // Whether a number for a column, which only the graph in between makes, ended it.
  bool waits() const { return waits_; }

  // The ends side by side, made of the starts side by side, at the graph's insertion point.
  Value* make(Graph& graph, Value* starts) const;
  // Once nobody reads the ends.
  void erase(Graph& graph) const;

 private:
  // Nodes alike. Null for a value that has none: then the op's neutral number stands in.
  struct Step {
    std::vector<Node*> nodes;
    std::vector<Value*> rows;  // with numbers for columns, where the nodes read such
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
