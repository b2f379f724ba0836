#pragma once
// GE's nodes (ge::GNode) over gex: read-only views of nodes while a pass runs.

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

// Valid while the function of the pass that got it runs. Functions return GRAPH_FAILED if the node
// has no such attribute, input or output.
class GNode {
 public:
  GNode() = default;
  GNode(gex::es::EsTensorHolder result) : result_(std::move(result)) {}  // NOLINT: as from GE's

  graphStatus GetType(AscendString& type) const {
    type = detail::TypeOf(gex::es::OpOf(result_)).c_str();
    return GRAPH_SUCCESS;
  }
  graphStatus GetName(AscendString& name) const {
    name = result_.name().c_str();
    return GRAPH_SUCCESS;
  }
  std::size_t GetInputsSize() const { return gex::es::OperandsOf(result_).size(); }
  graphStatus GetInputDesc(std::int32_t index, TensorDesc& desc) const {
    const std::vector<gex::es::EsTensorHolder> operands = gex::es::OperandsOf(result_);
    if (index < 0 || static_cast<std::size_t>(index) >= operands.size()) return GRAPH_FAILED;
    const gex::es::EsTensorHolder& operand = operands[static_cast<std::size_t>(index)];
    if (operand.empty()) return GRAPH_FAILED;
    desc = detail::DescOf(operand);
    return GRAPH_SUCCESS;
  }
  // Only the result by which the node was found.
  graphStatus GetOutputDesc(std::int32_t index, TensorDesc& desc) const {
    if (index != 0) return GRAPH_FAILED;
    desc = detail::DescOf(result_);
    return GRAPH_SUCCESS;
  }
  graphStatus GetAttr(const AscendString& name, bool& value) const {
    const std::string text = name.GetString();
    if (IsTransposeOfProduct(text)) {  // a transposed operand is a node of its own
      value = false;
      return GRAPH_SUCCESS;
    }
    return Read(text, [&](const std::string& printed) { value = printed == "true"; });
  }
  graphStatus GetAttr(const AscendString& name, std::int64_t& value) const {
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

  const gex::es::EsTensorHolder& result() const { return result_; }

 private:
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
};

using GNodePtr = std::shared_ptr<GNode>;

namespace fusion {

// A tensor by the node that makes or reads it. The index of an output is that of the holder whose
// producer was asked for.
struct NodeIo {
  GNode node;
  std::int64_t index = 0;
};

}  // namespace fusion
}  // namespace ge
