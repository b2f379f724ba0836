#pragma once
// GE's patterns (ge::fusion::Pattern), matches and the matcher for passes over whole graphs.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gex/compat/ge_boundary.hpp"
#include "gex/pass.hpp"

namespace ge::fusion {

using GraphUniqPtr = std::unique_ptr<Graph>;

// A graph whose inputs match any tensors.
class Pattern {
 public:
  explicit Pattern(Graph&& graph) : graph_(std::make_unique<Graph>(std::move(graph))) {}
  // Read back by MatchResult::GetCapturedTensor in the same order.
  Pattern& CaptureTensor(const NodeIo& tensor) {
    captures_.push_back(tensor);
    return *this;
  }
  Status GetCapturedTensors(std::vector<NodeIo>& tensors) const {
    tensors = captures_;
    return SUCCESS;
  }
  const Graph& GetGraph() const { return *graph_; }
  gex::es::Pattern Take() {
    // The builder that made the holders no longer owns the graph.
    const auto builder = gex::es::EsGraphBuilder::Continue("pattern", graph_->handle());
    std::vector<gex::es::EsTensorHolder> tensors;
    for (const NodeIo& capture : captures_)
      tensors.push_back(GNode(builder.Hold(capture.node.result().value())).Output(capture.index));
    return {std::move(graph_), std::move(tensors)};
  }

 private:
  GraphUniqPtr graph_;
  std::vector<NodeIo> captures_;
};
using PatternUniqPtr = std::unique_ptr<Pattern>;

// What has to be equal besides the ops. By default neither constants nor attributes.
class PatternMatcherConfig {
 public:
  bool IsEnableConstValueMatch() const { return constants_; }
  bool IsEnableIrAttrMatch() const { return attributes_; }

 private:
  friend class PatternMatcherConfigBuilder;
  bool constants_ = false, attributes_ = false;
};

class PatternMatcherConfigBuilder {
 public:
  PatternMatcherConfigBuilder& EnableConstValueMatch() {
    config_.constants_ = true;
    return *this;
  }
  PatternMatcherConfigBuilder& EnableIrAttrMatch() {
    config_.attributes_ = true;
    return *this;
  }
  std::unique_ptr<PatternMatcherConfig> Build() const {
    return std::make_unique<PatternMatcherConfig>(config_);
  }

 private:
  PatternMatcherConfig config_;
};

// Valid while the hook that got it runs, and in a pass over whole graphs while that runs.
class MatchResult {
 public:
  // `keep` lives as long as the result.
  explicit MatchResult(const gex::es::Match& match, std::shared_ptr<const void> keep = nullptr)
      : keep_(std::move(keep)), match_(match) {
    for (std::size_t k = 0; k < match.input_count(); ++k) inputs_.push_back(match.Input(k));
    std::size_t outputs = 0;
    gex::es::detail::Check(gex_match_counts(match.handle(), nullptr, &outputs, nullptr));
    for (std::size_t k = 0; k < outputs; ++k) outputs_.push_back(match.Output(k));
    for (const gex::es::EsTensorHolder& output : outputs_) Visit(output);
  }

  // Operands before the nodes that read them, constants included.
  std::vector<GNode> GetMatchedNodes() const { return nodes_; }
  Status GetCapturedTensor(std::size_t index, NodeIo& tensor) const {
    tensor = IoOf(match_.Captured(index));
    return SUCCESS;
  }
  std::unique_ptr<SubgraphBoundary> ToSubgraphBoundary() const {
    auto boundary = std::make_unique<SubgraphBoundary>();
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      boundary->AddInput(static_cast<std::int64_t>(k), SubgraphInput(ReadersOf(inputs_[k])));
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      boundary->AddOutput(static_cast<std::int64_t>(k), SubgraphOutput(IoOf(outputs_[k])));
    return boundary;
  }

 private:
  static NodeIo IoOf(const gex::es::EsTensorHolder& tensor) {
    const std::vector<gex::es::EsTensorHolder> results = gex::es::ResultsOf(tensor);
    std::int64_t index = 0;
    while (results[static_cast<std::size_t>(index)].value() != tensor.value()) ++index;
    return {GNode(results[0]), index};
  }
  // The operands of nodes of the match that read this tensor.
  std::vector<NodeIo> ReadersOf(const gex::es::EsTensorHolder& input) const {
    std::vector<NodeIo> readers;
    for (const GNode& node : nodes_) {
      const std::vector<gex::es::EsTensorHolder> operands = gex::es::OperandsOf(node.result());
      for (std::size_t k = 0; k < operands.size(); ++k)
        if (!operands[k].empty() && operands[k].value() == input.value())
          readers.push_back({node, static_cast<std::int64_t>(k)});
    }
    return readers;
  }
  void Visit(const gex::es::EsTensorHolder& value) {
    if (value.empty()) return;
    const auto is_value = [&](const gex::es::EsTensorHolder& other) {
      return other.value() == value.value();
    };
    if (std::any_of(inputs_.begin(), inputs_.end(), is_value)) return;
    const GNode made(gex::es::ResultsOf(value).at(0));
    for (const GNode& node : nodes_)
      if (node.result().value() == made.result().value()) return;
    for (const gex::es::EsTensorHolder& operand : gex::es::OperandsOf(value)) Visit(operand);
    nodes_.push_back(made);
  }

  std::shared_ptr<const void> keep_;
  gex::es::Match match_;
  std::vector<gex::es::EsTensorHolder> inputs_, outputs_;
  std::vector<GNode> nodes_;
};

// Finds a pattern in a graph, which may be changed between two matches. Each node is tried once as
// the maker of the pattern's first output. Matches may overlap.
class PatternMatcher {
 public:
  PatternMatcher(PatternUniqPtr pattern, const GraphPtr& graph,
                 std::unique_ptr<PatternMatcherConfig> config = nullptr)
      : search_(std::make_shared<Search>(std::move(pattern), graph, config.get())) {}

  // Null if there is no further match.
  std::unique_ptr<MatchResult> MatchNext() {
    gex_match* found = nullptr;
    gex::es::detail::Check(gex_matcher_next(search_->matcher.get(), &found));
    if (found == nullptr) return nullptr;
    auto kept = std::make_shared<Found>(search_, found);
    return std::make_unique<MatchResult>(gex::es::Match(search_->borrowed, found), kept);
  }

 private:
  struct Search {
    Search(PatternUniqPtr pattern, const GraphPtr& target, const PatternMatcherConfig* config)
        : graph(target), borrowed(graph->handle()) {
      const gex::es::Pattern wanted = pattern->Take();
      std::vector<gex_value> captures;
      for (const auto& capture : wanted.captures) captures.push_back(capture.value());
      const gex_pattern c = {wanted.graph->handle(), captures.data(), captures.size()};
      gex_matcher* made = nullptr;
      gex::es::detail::Check(gex_matcher_create(
          graph->handle(), &c, config == nullptr || !config->IsEnableConstValueMatch(),
          config == nullptr || !config->IsEnableIrAttrMatch(), &made));
      matcher.reset(made);
    }
    GraphPtr graph;
    gex::es::detail::Borrowed borrowed;
    std::unique_ptr<gex_matcher, void (*)(gex_matcher*)> matcher{nullptr, gex_matcher_destroy};
  };
  struct Found {
    Found(std::shared_ptr<Search> of, gex_match* found)
        : search(std::move(of)), match(found, gex_match_destroy) {}
    std::shared_ptr<Search> search;
    std::unique_ptr<gex_match, void (*)(gex_match*)> match;
  };

  std::shared_ptr<Search> search_;
};

}  // namespace ge::fusion
