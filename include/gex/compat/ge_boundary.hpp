#pragma once
// GE's boundaries of subgraphs (ge::fusion::SubgraphBoundary) and replacing what they enclose.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gex/compat/ge_nodes.hpp"

namespace ge::fusion {

// A tensor by the node that makes it (its output `index`) or that reads it (its input `index`).
struct NodeIo {
  GNode node;
  std::int64_t index = 0;
};

// One tensor from outside, by the places inside that read it.
class SubgraphInput {
 public:
  SubgraphInput() = default;
  explicit SubgraphInput(std::vector<NodeIo> readers) : readers_(std::move(readers)) {}
  Status AddInput(const NodeIo& reader) {
    readers_.push_back(reader);
    return SUCCESS;
  }
  std::vector<NodeIo> GetAllInputs() const { return readers_; }

 private:
  std::vector<NodeIo> readers_;
};

// One tensor that is used outside, by the node inside that makes it.
class SubgraphOutput {
 public:
  SubgraphOutput() = default;
  explicit SubgraphOutput(const NodeIo& tensor) : tensor_(tensor) {}
  Status SetOutput(const NodeIo& tensor) {
    tensor_ = tensor;
    return SUCCESS;
  }
  Status GetOutput(NodeIo& tensor) const {
    tensor = tensor_;
    return SUCCESS;
  }

 private:
  NodeIo tensor_;
};

class SubgraphBoundary {
 public:
  SubgraphBoundary() = default;
  SubgraphBoundary(std::vector<SubgraphInput> inputs, std::vector<SubgraphOutput> outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  // Indices in order from 0.
  Status AddInput(std::int64_t index, SubgraphInput input) {
    CheckNext("input", index, inputs_.size());
    inputs_.push_back(std::move(input));
    return SUCCESS;
  }
  Status AddOutput(std::int64_t index, SubgraphOutput output) {
    CheckNext("output", index, outputs_.size());
    outputs_.push_back(std::move(output));
    return SUCCESS;
  }
  Status GetInput(std::int64_t index, SubgraphInput& input) const {
    if (index < 0 || static_cast<std::size_t>(index) >= inputs_.size()) return FAILED;
    input = inputs_[static_cast<std::size_t>(index)];
    return SUCCESS;
  }
  Status GetOutput(std::int64_t index, SubgraphOutput& output) const {
    if (index < 0 || static_cast<std::size_t>(index) >= outputs_.size()) return FAILED;
    output = outputs_[static_cast<std::size_t>(index)];
    return SUCCESS;
  }
  Status GetAllInputs(std::vector<SubgraphInput>& inputs) const {
    inputs = inputs_;
    return SUCCESS;
  }
  Status GetAllOutputs(std::vector<SubgraphOutput>& outputs) const {
    outputs = outputs_;
    return SUCCESS;
  }

  // The tensors.
  std::vector<gex::es::EsTensorHolder> InputTensors() const {
    std::vector<gex::es::EsTensorHolder> tensors;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      const std::vector<NodeIo> readers = inputs_[k].GetAllInputs();
      if (readers.empty())
        throw gex::es::Error(GEX_INVALID_ARGUMENT,
                             "input " + std::to_string(k) + " of the boundary has no reader");
      const gex::es::EsTensorHolder tensor = readers[0].node.Input(readers[0].index);
      for (const NodeIo& reader : readers)
        if (reader.node.Input(reader.index).value() != tensor.value())
          throw gex::es::Error(GEX_INVALID_ARGUMENT, "the readers of input " + std::to_string(k) +
                                                         " of the boundary read different tensors");
      tensors.push_back(tensor);
    }
    return tensors;
  }
  std::vector<gex::es::EsTensorHolder> OutputTensors() const {
    std::vector<gex::es::EsTensorHolder> tensors;
    for (const SubgraphOutput& output : outputs_) {
      NodeIo tensor;
      output.GetOutput(tensor);
      tensors.push_back(tensor.node.Output(tensor.index));
    }
    return tensors;
  }

 private:
  static void CheckNext(const char* what, std::int64_t index, std::size_t count) {
    if (index != static_cast<std::int64_t>(count))
      throw gex::es::Error(GEX_INVALID_ARGUMENT,
                           std::string("the next ") + what + " of the boundary is " +
                               std::to_string(count) + ", not " + std::to_string(index));
  }

  std::vector<SubgraphInput> inputs_;
  std::vector<SubgraphOutput> outputs_;
};

}  // namespace ge::fusion

namespace ge {

// The name of a pass and the error that it reports.
class CustomPassContext {
 public:
  AscendString GetPassName() const { return name_; }
  void SetPassName(const AscendString& name) { name_ = name; }
  AscendString GetErrorMessage() const { return error_; }
  void SetErrorMessage(const AscendString& message) { error_ = message; }
  // Passes here have no options.
  graphStatus GetOptionValue(const AscendString& /*key*/, AscendString& /*value*/) const {
    return GRAPH_FAILED;
  }

 private:
  AscendString name_, error_;
};

namespace fusion {

class SubgraphRewriter {
 public:
  // Replaces what the boundary encloses by a copy of a graph with as many inputs and outputs. An
  // error if tensors inside are used outside, or if the result would be a cycle.
  static Status Replace(const SubgraphBoundary& boundary, const Graph& replacement) {
    std::vector<gex_value> inputs, outputs;
    for (const auto& tensor : boundary.InputTensors()) inputs.push_back(tensor.value());
    const std::vector<gex::es::EsTensorHolder> results = boundary.OutputTensors();
    for (const auto& tensor : results) outputs.push_back(tensor.value());
    if (results.empty()) throw gex::es::Error(GEX_INVALID_ARGUMENT, "the boundary has no output");
    gex::es::detail::Check(gex_graph_rewrite(gex::es::detail::GraphOf(results[0]), inputs.data(),
                                             inputs.size(), outputs.data(), outputs.size(),
                                             replacement.handle()));
    ++ge::detail::EditsOfThisThread();
    return SUCCESS;
  }
  static Status Replace(const SubgraphBoundary& boundary, const Graph& replacement,
                        CustomPassContext& /*context*/) {
    return Replace(boundary, replacement);
  }
};

// Replacements are checked when they are made.
class GraphFuseInspectorUtils {
 public:
  static bool CanFuse(const std::vector<GNode>& /*nodes*/, AscendString& /*reason*/) {
    return true;
  }
  static Status ReportFuse(const std::vector<GNode>& /*before*/,
                           const std::vector<GNode>& /*after*/, CustomPassContext& /*context*/) {
    return SUCCESS;
  }
};

}  // namespace fusion
}  // namespace ge
