#pragma once
// The pattern matcher. A pattern is a Graph, usually parsed from text: its inputs match any value,
// its nodes match nodes with the same op, attributes, subgraphs and absent inputs, its outputs are
// the roots of the match. Types are ignored: the condition of a rewrite can check them.

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace gex {

struct Match {
  std::vector<Value*> inputs;   // values matched to the pattern's inputs
  std::vector<Node*> nodes;     // matched nodes, in the pattern's order
  std::vector<Value*> outputs;  // matched outputs
};

class Pattern {
 public:
  // UserError if the pattern has no computed output, has unconnected parts, effects, or unused
  // inputs or nodes.
  static Pattern from(std::unique_ptr<Graph> graph);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // The node that computes the value named `result` matches for any value of this attribute;
  // without a name, for any attributes. UserError(not_found) if there is no such value or
  // attribute.
  Pattern& any_attr(std::string_view result, std::string_view attr = {});
  // All nodes match for any attributes.
  Pattern& any_attrs();
  // Decides which constants the pattern's constants match, whatever op makes them; without it they
  // are compared like other nodes.
  using SameConstant = bool (*)(const Node& wanted, const Node& found);
  Pattern& compare_constants(SameConstant same);

  const Graph& graph() const { return *graph_; }
  // The op that a node must have for match_at to try it.
  const OpDef& root_op() const;

  // A match whose first output is computed by `root`. Both orders of a commutative op's first two
  // inputs are tried. Values inside the match have no uses outside it, except those of constants,
  // and no input is an output.
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

// Tries the pattern once at every node that is in the graph now (not in its subgraphs), in order.
// If it matches and `condition` (may be empty) agrees, `replacement` adds nodes at the insertion
// point, after everything that it may use (the match's inputs and inner values), and returns a
// value for each output of the pattern; nodes of the match without uses are removed. A match that
// can't be replaced (the reader of one output computes an input; the layout promised for a graph
// output would be lost) is skipped. Returns whether anything changed and adds the number of
// replaced matches to *count, of all matches to *matched.
bool apply_rewrite(Graph& graph, const Pattern& pattern,
                   const std::function<bool(const Match&)>& condition,
                   const std::function<std::vector<Value*>(Graph&, const Match&)>& replacement,
                   int* count = nullptr, int* matched = nullptr);

// The nodes that compute `outputs` from `inputs`, in order. UserError if they read other inputs of
// the graph, if values inside are used outside, or if they have effects or subgraphs.
Match region_between(std::vector<Value*> inputs, std::vector<Value*> outputs);

// Replaces one match; its nodes stay, without uses of its outputs. UserError if an input is
// computed from an output. Returns false, without a change, if the layout promised for a graph
// output would be lost.
bool replace_match(Graph& graph, const Match& match,
                   const std::function<std::vector<Value*>(Graph&, const Match&)>& replacement);

}  // namespace gex
