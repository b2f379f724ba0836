#pragma once
// The one pattern matcher. A pattern is itself a Graph, usually parsed from text: its inputs stand
// for any value, its nodes must be found with the same op, attributes, subgraphs and absent inputs,
// its outputs are the roots of the match. Types don't count: the condition of a rewrite asks them.

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace gex {

struct Match {
  std::vector<Value*> inputs;   // what the pattern's inputs stand for
  std::vector<Node*> nodes;     // images of the pattern's nodes, in the pattern's order
  std::vector<Value*> outputs;  // images of the pattern's outputs
};

class Pattern {
 public:
  // UserError if the pattern has no computed output, falls into unconnected parts, has effects, or
  // inputs or nodes that nothing uses.
  static Pattern from(std::unique_ptr<Graph> graph);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // The node that computes the value named `result` matches whatever this attribute is; without a
  // name, whatever all its attributes are. UserError(not_found) if there is no such value or
  // attribute.
  Pattern& any_attr(std::string_view result, std::string_view attr = {});
  // All nodes match whatever their attributes are.
  Pattern& any_attrs();
  // Decides which constants the pattern's constants stand for, whatever op made either; without it
  // they are compared as other nodes are.
  using SameConstant = bool (*)(const Node& wanted, const Node& found);
  Pattern& compare_constants(SameConstant same);

  const Graph& graph() const { return *graph_; }
  // The op that a node must have for match_at to try it.
  const OpDef& root_op() const;

  // A match whose first output is computed by `root`. Both orders of a commutative op's first two
  // inputs are tried. Values inside the match have no uses outside it, except those of constants,
  // and no input stands for an output.
  std::optional<Match> match_at(Node* root) const;

 private:
  friend class MatchSearch;
  struct PatternNode;
  struct Step;
  Pattern() = default;
  void plan_steps();

  std::unique_ptr<Graph> graph_;
  std::vector<PatternNode> nodes_;
  std::vector<Step> steps_;
  std::vector<int> inputs_;   // value numbers
  std::vector<int> outputs_;  // value numbers
  std::vector<bool> is_output_;
  SameConstant same_constant_ = nullptr;
};

// Tries the pattern at every node that is in the graph now (not in its subgraphs), in order, once.
// Where it matches and `condition` (may be empty) agrees, `replacement` adds nodes at the insertion
// point, after all that it may use (the match's inputs, and the values inside the match), and
// returns a value for each output of the pattern; nodes of the match without uses go away. A match
// that can't be replaced where it stands (the reader of one output computes an input; the layout
// promised for a graph output would be lost) is left alone. Returns whether anything changed and
// adds the number of replaced matches to *count, of all matches to *matched.
bool apply_rewrite(Graph& graph, const Pattern& pattern,
                   const std::function<bool(const Match&)>& condition,
                   const std::function<std::vector<Value*>(Graph&, const Match&)>& replacement,
                   int* count = nullptr, int* matched = nullptr);

}  // namespace gex
