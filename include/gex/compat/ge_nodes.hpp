#pragma once
// GE's nodes (ge::GNode) over gex, and walking graphs by them.

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gex/compat/ge_session.hpp"
#include "gex/pass.hpp"

namespace ge {

namespace detail {

// Ops of gex whose type in GE is not their name in CamelCase; the first type of an op is the one
// that its nodes report.
struct OpType {
  const char *op, *type;
};
inline constexpr OpType kOpTypes[] = {{"", "Data"},
                                      {"constant", "Const"},
                                      {"full", "Const"},
                                      {"matmul", "MatMul"},
                                      {"matmul", "MatMulV2"},
                                      {"matmul", "BatchMatMul"},
                                      {"matmul", "BatchMatMulV2"},
                                      {"conv2d", "Conv2D"},
                                      {"cat", "ConcatV2"},
                                      {"cat", "Concat"},
                                      {"cat", "ConcatD"},
                                      {"ge.gemm", "GEMM"},
                                      {"eq", "Equal"},
                                      {"ne", "NotEqual"},
                                      {"gt", "Greater"},
                                      {"ge", "GreaterEqual"},
                                      {"lt", "Less"},
                                      {"le", "LessEqual"},
                                      {"where", "SelectV2"},
                                      {"topk", "TopK"},
                                      {"softmax", "SoftmaxV2"},
                                      {"expand", "BroadcastTo"}};

inline std::string TypeOf(const std::string& op) {
  for (const OpType& row : kOpTypes)
    if (op == row.op) return row.type;
  std::string type;
  bool upper = true;
  for (char c : op) {
    if (c != '_') type += upper ? static_cast<char>(std::toupper(c)) : c;
    upper = c == '_';
  }
  return type;
}
inline std::string OpOfType(const std::string& type) {
  for (const OpType& row : kOpTypes)
    if (type == row.type) return row.op;
  std::string op;
  for (char c : type) {
    if (std::isupper(c) && !op.empty()) op += '_';
    op += static_cast<char>(std::tolower(c));
  }
  return op;
}

inline TensorDesc DescOf(const gex::es::EsTensorHolder& value) {
  return TensorDesc(Shape(value.shape()), FORMAT_ND, ToDataType(value.dtype()));
}

}  // namespace detail

// A node of a graph, identified by one of its results; an input of the graph ("Data"); or all its
// outputs ("NetOutput"). Valid as long as the graph, in a pass until its function returns.
// Functions return GRAPH_FAILED if the node has no such attribute, input or output.
class GNode {
 public:
  GNode() = default;
  GNode(gex::es::EsTensorHolder result) : result_(std::move(result)) {}  // NOLINT: as from GE's
  // The node of the outputs of `graph`, which any of its values identifies.
  static GNode OutputsOf(gex::es::EsGraphBuilder graph) {
    GNode node;
    node.graph_ = std::make_shared<gex::es::EsGraphBuilder>(std::move(graph));
    return node;
  }

  graphStatus GetType(AscendString& type) const {
    type = IsNetOutput() ? "NetOutput" : detail::TypeOf(gex::es::OpOf(result_));
    return GRAPH_SUCCESS;
  }
  graphStatus GetName(AscendString& name) const {
    name = IsNetOutput() ? "NetOutput" : result_.name();
    return GRAPH_SUCCESS;
  }
  std::size_t GetInputsSize() const { return Operands().size(); }
  std::size_t GetOutputsSize() const {
    return IsNetOutput() ? 0 : gex::es::ResultsOf(result_).size();
  }
  graphStatus GetInputDesc(std::int32_t index, TensorDesc& desc) const {
    return DescOf(Operands(), index, desc);
  }
  graphStatus GetOutputDesc(std::int32_t index, TensorDesc& desc) const {
    if (IsNetOutput()) return GRAPH_FAILED;
    return DescOf(gex::es::ResultsOf(result_), index, desc);
  }
  // Types are determined by ops and operands: descriptions are accepted without effect.
  graphStatus UpdateInputDesc(std::int32_t /*index*/, const TensorDesc& /*desc*/) {
    return GRAPH_SUCCESS;
  }
  graphStatus UpdateOutputDesc(std::int32_t /*index*/, const TensorDesc& /*desc*/) {
    return GRAPH_SUCCESS;
  }
  // The node that makes an operand and which of its outputs that is; null if it is absent.
  std::pair<std::shared_ptr<GNode>, std::int32_t> GetInDataNodesAndPortIndexs(
      std::int32_t index) const {
    const std::vector<gex::es::EsTensorHolder> operands = Operands();
    if (index < 0 || static_cast<std::size_t>(index) >= operands.size()) return {nullptr, -1};
    const gex::es::EsTensorHolder& operand = operands[static_cast<std::size_t>(index)];
    if (operand.empty()) return {nullptr, -1};
    const std::vector<gex::es::EsTensorHolder> results = gex::es::ResultsOf(operand);
    std::int32_t output = 0;
    while (results[static_cast<std::size_t>(output)].value() != operand.value()) ++output;
    return {std::make_shared<GNode>(results[0]), output};
  }
  // The nodes that read an output, and which of their operands it is.
  std::vector<std::pair<std::shared_ptr<GNode>, std::int32_t>> GetOutDataNodesAndPortIndexs(
      std::int32_t index) const {
    std::vector<std::pair<std::shared_ptr<GNode>, std::int32_t>> readers;
    for (const gex::es::Reader& reader : gex::es::ReadersOf(Output(index)))
      readers.emplace_back(
          std::make_shared<GNode>(reader.node.empty() ? OutputsOf(Builder()) : GNode(reader.node)),
          static_cast<std::int32_t>(reader.operand));
    return readers;
  }
  graphStatus GetInputConstData(std::int32_t index, Tensor& data) const {
    const std::vector<gex::es::EsTensorHolder> operands = Operands();
    if (index < 0 || static_cast<std::size_t>(index) >= operands.size()) return GRAPH_FAILED;
    const gex::es::EsTensorHolder& operand = operands[static_cast<std::size_t>(index)];
    if (operand.empty() || !gex::es::IsConstant(operand)) return GRAPH_FAILED;
    data = Tensor(gex::es::ConstantOf(operand));
    return GRAPH_SUCCESS;
  }
  bool HasAttr(const AscendString& name) const {
    AscendString text;
    std::vector<std::int64_t> numbers;
    return GetAttr(name, text) == GRAPH_SUCCESS || GetAttr(name, numbers) == GRAPH_SUCCESS;
  }
  graphStatus GetAttr(const AscendString& name, bool& value) const {
    const std::string text = name.GetString();
    if (IsTransposeOfProduct(text)) {  // a transposed operand is a node of its own
      value = false;
      return GRAPH_SUCCESS;
    }
    return Read(text, [&](const std::string& printed) { value = printed == "true"; });
  }
  graphStatus GetAttr(const AscendString& name, std::int32_t& value) const {
    std::int64_t number = 0;
    const graphStatus status = GetAttr(name, number);
    if (status == GRAPH_SUCCESS) value = static_cast<std::int32_t>(number);
    return status;
  }
  graphStatus GetAttr(const AscendString& name, std::int64_t& value) const {
    if (std::string(name.GetString()) == "N" && gex::es::OpOf(result_) == "cat") {
      value = static_cast<std::int64_t>(GetInputsSize());
      return GRAPH_SUCCESS;
    }
    return Read(name.GetString(), [&](const std::string& printed) { value = std::stoll(printed); });
  }
  graphStatus GetAttr(const AscendString& name, float& value) const {
    return Read(name.GetString(), [&](const std::string& printed) { value = std::stof(printed); });
  }
  graphStatus GetAttr(const AscendString& name, AscendString& value) const {
    if (std::string(name.GetString()) == "data_format" && IsConvolution()) {
      value = "NCHW";
      return GRAPH_SUCCESS;
    }
    return Read(name.GetString(), [&](const std::string& printed) {
      const bool quoted = printed.size() >= 2 && printed.front() == '"';
      value = (quoted ? printed.substr(1, printed.size() - 2) : printed).c_str();
    });
  }
  graphStatus GetAttr(const AscendString& name, std::vector<std::int64_t>& values) const {
    const std::string text = name.GetString();
    try {
      if (!IsConvolution()) {
        values = gex::es::IntegersOf(result_, text);
      } else if (text == "pads") {
        const std::vector<std::int64_t> pads = gex::es::IntegersOf(result_, "padding");
        values = {pads.at(0), pads.at(0), pads.at(1), pads.at(1)};
      } else {
        const std::vector<std::int64_t> pixels =
            gex::es::IntegersOf(result_, text == "strides"     ? "stride"
                                         : text == "dilations" ? "dilation"
                                                               : text);
        values = {1, 1, pixels.at(0), pixels.at(1)};
      }
      return GRAPH_SUCCESS;
    } catch (const gex::es::Error&) {
      return GRAPH_FAILED;
    }
  }
  // "value" of a constant.
  graphStatus GetAttr(const AscendString& name, Tensor& value) const {
    if (std::string(name.GetString()) != "value" || !gex::es::IsConstant(result_))
      return GRAPH_FAILED;
    value = Tensor(gex::es::ConstantOf(result_));
    return GRAPH_SUCCESS;
  }

  // Empty for the node of the outputs.
  const gex::es::EsTensorHolder& result() const { return result_; }
  bool IsNetOutput() const { return graph_ != nullptr; }
  gex::es::EsTensorHolder Output(std::int64_t index) const {
    const auto results =
        IsNetOutput() ? std::vector<gex::es::EsTensorHolder>() : gex::es::ResultsOf(result_);
    if (index < 0 || static_cast<std::size_t>(index) >= results.size())
      throw gex::es::Error(GEX_INVALID_ARGUMENT,
                           Text() + " has no output " + std::to_string(index));
    return results[static_cast<std::size_t>(index)];
  }
  gex::es::EsTensorHolder Input(std::int64_t index) const {
    const std::vector<gex::es::EsTensorHolder> operands = Operands();
    if (index < 0 || static_cast<std::size_t>(index) >= operands.size())
      throw gex::es::Error(GEX_INVALID_ARGUMENT, Text() + " has no input " + std::to_string(index));
    return operands[static_cast<std::size_t>(index)];
  }

 private:
  gex::es::EsGraphBuilder Builder() const {
    return gex::es::EsGraphBuilder::Continue("graph", gex::es::detail::GraphOf(result_));
  }
  std::string Text() const {
    AscendString type, name;
    GetType(type);
    GetName(name);
    return std::string(type.GetString()) + " '" + name.GetString() + "'";
  }
  std::vector<gex::es::EsTensorHolder> Operands() const {
    if (!IsNetOutput())
      return gex::es::OpOf(result_).empty() ? std::vector<gex::es::EsTensorHolder>()
                                            : gex::es::OperandsOf(result_);
    gex_graph* graph = gex::es::detail::GraphOf(graph_->Hold(GEX_NO_VALUE));
    std::size_t count = 0;
    gex::es::detail::Check(gex_graph_output_count(graph, &count));
    std::vector<gex::es::EsTensorHolder> outputs;
    for (std::size_t k = 0; k < count; ++k) {
      gex_value output = GEX_NO_VALUE;
      gex::es::detail::Check(gex_graph_get_output(graph, k, &output));
      outputs.push_back(graph_->Hold(output));
    }
    return outputs;
  }
  static graphStatus DescOf(const std::vector<gex::es::EsTensorHolder>& tensors, std::int32_t index,
                            TensorDesc& desc) {
    if (index < 0 || static_cast<std::size_t>(index) >= tensors.size()) return GRAPH_FAILED;
    const gex::es::EsTensorHolder& tensor = tensors[static_cast<std::size_t>(index)];
    if (tensor.empty()) return GRAPH_FAILED;
    desc = detail::DescOf(tensor);
    return GRAPH_SUCCESS;
  }
  bool IsConvolution() const { return gex::es::OpOf(result_) == "conv2d"; }
  bool IsTransposeOfProduct(const std::string& name) const {
    return gex::es::OpOf(result_) == "matmul" &&
           (name.rfind("transpose_x", 0) == 0 || name.rfind("adj_x", 0) == 0);
  }
  template <class Use>
  graphStatus Read(const std::string& name, Use use) const {
    try {
      use(gex::es::AttrOf(result_, name));
      return GRAPH_SUCCESS;
    } catch (const gex::es::Error&) {
      return GRAPH_FAILED;  // as in GE: the caller decides whether it is an error
    }
  }

  gex::es::EsTensorHolder result_;
  std::shared_ptr<gex::es::EsGraphBuilder> graph_;  // of the node of the outputs
};

using GNodePtr = std::shared_ptr<GNode>;

// --- graphs --------------------------------------------------------------------------------------

namespace detail {

// Changes of graphs by this thread, so that a pass can tell whether it made any.
inline std::size_t& EditsOfThisThread() {
  static thread_local std::size_t edits = 0;
  return edits;
}

}  // namespace detail

inline std::vector<GNode> Graph::GetDirectNode() const {
  const auto builder = gex::es::EsGraphBuilder::Continue("graph", handle());
  std::vector<GNode> nodes;
  for (std::size_t k = 0; k < input_count(); ++k) {
    gex_value input = GEX_NO_VALUE;
    gex::es::detail::Check(gex_graph_get_input(handle(), k, &input));
    nodes.emplace_back(builder.Hold(input));
  }
  for (gex_value value : gex::es::detail::List<gex_value>(
           [&](gex_value* values, std::size_t capacity, std::size_t* count) {
             return gex_graph_nodes(handle(), values, capacity, count);
           }))
    if (value != GEX_NO_VALUE) nodes.emplace_back(builder.Hold(value));
  nodes.push_back(GNode::OutputsOf(builder));
  return nodes;
}
inline std::vector<GNode> Graph::GetAllNodes() const { return GetDirectNode(); }
inline GNodePtr Graph::FindNodeByName(const AscendString& name) const {
  for (const GNode& node : GetDirectNode()) {
    AscendString own;
    node.GetName(own);
    if (own == name) return std::make_shared<GNode>(node);
  }
  return nullptr;
}

inline graphStatus Graph::RemoveEdge(GNode& source, std::int32_t output, GNode& reader,
                                     std::int32_t input) {
  if (reader.Input(input).value() != source.Output(output).value())
    throw gex::es::Error(GEX_INVALID_ARGUMENT, "RemoveEdge: input " + std::to_string(input) +
                                                   " of the reader is another tensor");
  edits_.removed_edges.emplace_back(reader.result().value(), input);
  return GRAPH_SUCCESS;
}
inline graphStatus Graph::AddDataEdge(GNode& source, std::int32_t output, GNode& reader,
                                      std::int32_t input) {
  auto& removed = edits_.removed_edges;
  const auto at = std::find(removed.begin(), removed.end(),
                            std::pair<gex_value, std::int32_t>(reader.result().value(), input));
  if (at == removed.end())
    throw gex::es::Error(GEX_INVALID_ARGUMENT,
                         "AddDataEdge: input " + std::to_string(input) +
                             " of the reader is taken; remove its edge first");
  gex::es::detail::Check(gex_graph_set_operand(handle(), reader.result().value(),
                                               static_cast<std::size_t>(input),
                                               source.Output(output).value()));
  removed.erase(at);
  ++detail::EditsOfThisThread();
  return GRAPH_SUCCESS;
}
inline graphStatus Graph::RemoveNode(GNode& node) {
  if (node.IsNetOutput() || gex::es::OpOf(node.result()).empty())
    throw gex::es::Error(GEX_INVALID_ARGUMENT,
                         "RemoveNode: inputs and outputs of a graph can't be removed");
  edits_.removed_nodes.push_back(node.result().value());
  return GRAPH_SUCCESS;
}
inline void Graph::EraseNodes() {
  const std::vector<GNode> nodes = GetDirectNode();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {  // readers first
    const gex_value value = node->result().value();
    if (node->IsNetOutput() || std::find(edits_.removed_nodes.begin(), edits_.removed_nodes.end(),
                                         value) == edits_.removed_nodes.end())
      continue;
    gex::es::detail::Check(gex_graph_erase(handle(), value));
    ++detail::EditsOfThisThread();
  }
}
inline void Graph::FinishEdits() {
  EraseNodes();
  for (const auto& [reader, input] : edits_.removed_edges)
    if (std::find(edits_.removed_nodes.begin(), edits_.removed_nodes.end(), reader) ==
        edits_.removed_nodes.end())
      throw gex::es::Error(GEX_INVALID_GRAPH,
                           "the edge to input " + std::to_string(input) +
                               " of a node was removed, but neither replaced nor the node removed");
  edits_ = {};
}

}  // namespace ge
