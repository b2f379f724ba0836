#include "ir/matcher.hpp"

#include <algorithm>
#include <unordered_map>

namespace gex {

struct Pattern::PatternNode {
  const Node* node;
  std::vector<int> inputs;  // value numbers; -1: absent
  std::vector<int> outputs;
  std::vector<bool> any_attr;
};

// The nodes in an order in which each one is connected to a value that is already bound.
struct Pattern::Step {
  enum class Via : unsigned char { root, producer, user } via;
  int value;  // whose producer or user this node is
  int node;
};

Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern Pattern::from(std::unique_ptr<Graph> graph) {
  Pattern pattern;
  std::unordered_map<const Value*, int> number;
  auto define = [&](const Value* value) {
    return number.emplace(value, static_cast<int>(number.size())).first->second;
  };
  for (const auto& input : graph->inputs()) {
    if (input->uses().empty())
      fail(ErrorCode::invalid_argument, "pattern '", graph->name(), "': input ", input->index(),
           " is not used, so it can't be matched; remove it");
    pattern.inputs_.push_back(define(input.get()));
  }
  for (const Node& node : graph->nodes()) {
    if (node.op().has(Trait::effect))
      fail(ErrorCode::invalid_argument, "pattern '", graph->name(), "': ", node.op().name,
           " has an effect; a pattern is made of pure ops");
    bool dead = true;
    for (std::size_t i = 0; i < node.num_outputs(); ++i) dead &= node.output(i)->uses().empty();
    if (dead)
      fail(ErrorCode::invalid_argument, "pattern '", graph->name(), "': `", print_node(node),
           "` is not used by an output; remove it");
    PatternNode& made = pattern.nodes_.emplace_back();
    made.node = &node;
    made.any_attr.resize(node.attrs().size());
    for (const Value* value : node.inputs()) made.inputs.push_back(value ? number.at(value) : -1);
    for (std::size_t i = 0; i < node.num_outputs(); ++i)
      made.outputs.push_back(define(node.output(i)));
  }
  pattern.is_output_.resize(number.size());
  for (const Value* value : graph->outputs()) {
    if (value->is_input())
      fail(ErrorCode::invalid_argument, "pattern '", graph->name(),
           "': an output of a pattern must be computed, not an input");
    pattern.outputs_.push_back(number.at(value));
    pattern.is_output_[static_cast<std::size_t>(number.at(value))] = true;
  }
  if (pattern.outputs_.empty())
    fail(ErrorCode::invalid_argument, "pattern '", graph->name(), "' has no output to match");
  pattern.graph_ = std::move(graph);
  pattern.plan_steps();
  return pattern;
}

void Pattern::plan_steps() {
  std::vector<bool> bound(is_output_.size());
  std::vector<bool> planned(nodes_.size());
  auto is_bound = [&](int value) { return value >= 0 && bound[static_cast<std::size_t>(value)]; };
  auto find = [&](const std::vector<int>& values) {
    auto it = std::find_if(values.begin(), values.end(), is_bound);
    return it == values.end() ? -1 : *it;
  };
  auto plan = [&](std::size_t n, Step::Via via, int value) {
    steps_.push_back({via, value, static_cast<int>(n)});
    planned[n] = true;
    for (int v : nodes_[n].inputs)
      if (v >= 0) bound[static_cast<std::size_t>(v)] = true;
    for (int v : nodes_[n].outputs) bound[static_cast<std::size_t>(v)] = true;
  };
  // A value has one producer but many users, so producers are tried first.
  auto plan_next = [&](Step::Via via) {
    for (std::size_t n = nodes_.size(); n-- > 0;) {
      if (planned[n]) continue;
      int value = find(via == Step::Via::producer ? nodes_[n].outputs : nodes_[n].inputs);
      if (value < 0) continue;
      plan(n, via, value);
      return true;
    }
    return false;
  };
  for (std::size_t n = 0; n < nodes_.size(); ++n)
    if (nodes_[n].node == graph_->outputs()[0]->producer()) plan(n, Step::Via::root, -1);
  while (plan_next(Step::Via::producer) || plan_next(Step::Via::user)) {
  }
  if (steps_.size() != nodes_.size())
    fail(ErrorCode::invalid_argument, "pattern '", graph_->name(),
         "' has parts that share no value; match them separately");
}

Pattern& Pattern::any_attr(std::string_view result, std::string_view attr) {
  for (PatternNode& node : nodes_) {
    const Node& n = *node.node;
    bool found = false;
    for (std::size_t i = 0; i < n.num_outputs(); ++i) found |= n.output(i)->name() == result;
    if (!found) continue;
    if (!attr.empty()) n.attr(attr);  // throws if there is none
    for (std::size_t i = 0; i < n.attrs().size(); ++i)
      if (attr.empty() || n.op().attrs[i].name == attr) node.any_attr[i] = true;
    return *this;
  }
  fail(ErrorCode::not_found, "pattern '", graph_->name(), "' computes no value named '", result,
       "'");
}

Pattern& Pattern::any_attrs() {
  for (PatternNode& node : nodes_) node.any_attr.assign(node.any_attr.size(), true);
  return *this;
}

Pattern& Pattern::compare_constants(SameConstant same) {
  same_constant_ = same;
  return *this;
}

const OpDef& Pattern::root_op() const { return graph_->outputs()[0]->producer()->op(); }

class MatchSearch {
 public:
  MatchSearch(const Pattern& pattern, Node* root)
      : pattern_(pattern),
        root_(root),
        values_(pattern.is_output_.size()),
        nodes_(pattern.nodes_.size()) {}

  std::optional<Match> run() {
    if (!solve(0)) return std::nullopt;
    Match match;
    match.nodes = nodes_;
    for (int v : pattern_.inputs_) match.inputs.push_back(value(v));
    for (int v : pattern_.outputs_) match.outputs.push_back(value(v));
    return match;
  }

 private:
  Value*& value(int number) { return values_[static_cast<std::size_t>(number)]; }

  bool solve(std::size_t step_index) {
    if (step_index == pattern_.steps_.size())
      return inner_values_stay_inside() && inputs_are_no_outputs();
    const Pattern::Step& step = pattern_.steps_[step_index];
    if (step.via == Pattern::Step::Via::root) return try_node(step_index, root_);
    Value* touched = value(step.value);
    if (step.via == Pattern::Step::Via::producer)
      return touched->producer() != nullptr && try_node(step_index, touched->producer());
    for (const Use& use : touched->uses())
      if (use.node != nullptr && try_node(step_index, use.node)) return true;
    return false;
  }

  bool try_node(std::size_t step_index, Node* node) {
    auto n = static_cast<std::size_t>(pattern_.steps_[step_index].node);
    const Pattern::PatternNode& wanted = pattern_.nodes_[n];
    if (!same_operation(wanted, *node) ||
        std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end())
      return false;
    nodes_[n] = node;
    bool may_swap = node->op().has(Trait::commutative) && node->inputs().size() >= 2;
    for (bool swapped : {false, true}) {
      if (swapped && !may_swap) break;
      std::size_t mark = trail_.size();
      if (bind_all(wanted, *node, swapped) && solve(step_index + 1)) return true;
      while (trail_.size() > mark) {
        value(trail_.back()) = nullptr;
        trail_.pop_back();
      }
    }
    nodes_[n] = nullptr;
    return false;
  }

  bool same_operation(const Pattern::PatternNode& wanted, const Node& node) const {
    const Node& pattern = *wanted.node;
    if (pattern_.same_constant_ != nullptr && pattern.op().has(Trait::constant))
      return node.op().has(Trait::constant) && pattern_.same_constant_(pattern, node);
    if (&pattern.op() != &node.op() || pattern.inputs().size() != node.inputs().size() ||
        pattern.num_outputs() != node.num_outputs() ||
        pattern.subgraphs().size() != node.subgraphs().size())
      return false;
    for (std::size_t i = 0; i < node.attrs().size(); ++i)
      if (!wanted.any_attr[i] && !attr_equal(pattern.attrs()[i], node.attrs()[i])) return false;
    for (std::size_t i = 0; i < node.subgraphs().size(); ++i)
      if (!structurally_equal(*pattern.subgraphs()[i], *node.subgraphs()[i])) return false;
    return true;
  }

  bool bind_all(const Pattern::PatternNode& wanted, const Node& node, bool swapped) {
    for (std::size_t i = 0; i < node.num_outputs(); ++i)
      if (!bind(wanted.outputs[i], node.output(i))) return false;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      Value* input = node.input(swapped && i < 2 ? 1 - i : i);
      if ((wanted.inputs[i] < 0) != (input == nullptr)) return false;
      if (input != nullptr && !bind(wanted.inputs[i], input)) return false;
    }
    return true;
  }

  bool bind(int number, Value* to) {
    if (value(number) != nullptr) return value(number) == to;
    value(number) = to;
    trail_.push_back(number);
    return true;
  }

  bool inner_values_stay_inside() const {
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n]->op().has(Trait::constant))
        continue;  // shared by many; keeping it costs nothing
      for (std::size_t i = 0; i < nodes_[n]->num_outputs(); ++i) {
        if (pattern_.is_output_[static_cast<std::size_t>(pattern_.nodes_[n].outputs[i])]) continue;
        for (const Use& use : nodes_[n]->output(i)->uses())
          if (use.node == nullptr ||
              std::find(nodes_.begin(), nodes_.end(), use.node) == nodes_.end())
            return false;
      }
    }
    return true;
  }

  // Outputs are replaced, so an output that is also an input would make the replacement read
  // itself.
  bool inputs_are_no_outputs() const {
    auto at = [&](int number) { return values_[static_cast<std::size_t>(number)]; };
    for (int in : pattern_.inputs_)
      for (int out : pattern_.outputs_)
        if (at(in) == at(out)) return false;
    return true;
  }

  const Pattern& pattern_;
  Node* root_;
  std::vector<Value*> values_;
  std::vector<Node*> nodes_;
  std::vector<int> trail_;
};

std::optional<Match> Pattern::match_at(Node* root) const {
  if (&root->op() != &root_op()) return std::nullopt;
  return MatchSearch(*this, root).run();
}

}  // namespace gex
