#pragma once
// The graph-building names of GE (namespaces ge and ge::es) over gex: programs written for GE's
// EsGraphBuilder compile unchanged with this header and link with -lgex only. Where GE returns a
// null holder or a status, this throws gex::es::Error on the line of the mistake.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gex/es.hpp"

namespace ge {

enum DataType {
  DT_FLOAT = 0,
  DT_FLOAT16 = 1,
  DT_INT8 = 2,
  DT_INT32 = 3,
  DT_UINT8 = 4,
  DT_INT16 = 6,
  DT_UINT16 = 7,
  DT_UINT32 = 8,
  DT_INT64 = 9,
  DT_UINT64 = 10,
  DT_DOUBLE = 11,
  DT_BOOL = 12,
  DT_STRING = 13,
  DT_COMPLEX64 = 16,
  DT_COMPLEX128 = 17,
  DT_BF16 = 27,
};

// Names of plain row-major layouts; the sizes of a shape are always in memory order.
enum Format { FORMAT_NCHW = 0, FORMAT_NHWC = 1, FORMAT_ND = 2 };

inline gex::es::DType ToDType(DataType type) {
  using gex::es::DType;
  switch (type) {
    case DT_FLOAT:
      return DType::f32;
    case DT_FLOAT16:
      return DType::f16;
    case DT_INT8:
      return DType::i8;
    case DT_INT32:
      return DType::i32;
    case DT_UINT8:
      return DType::u8;
    case DT_INT16:
      return DType::i16;
    case DT_INT64:
      return DType::i64;
    case DT_DOUBLE:
      return DType::f64;
    case DT_BOOL:
      return DType::boolean;
    case DT_BF16:
      return DType::bf16;
    default:
      throw gex::es::Error(GEX_UNSUPPORTED, "data type " + std::to_string(type) +
                                                " is not supported; use FLOAT, FLOAT16, "
                                                "BF16, DOUBLE, INT8 to INT64, UINT8 and BOOL");
  }
}

inline void CheckFormat(Format format) {
  if (format != FORMAT_NCHW && format != FORMAT_NHWC && format != FORMAT_ND)
    throw gex::es::Error(GEX_UNSUPPORTED, "format " + std::to_string(format) +
                                              " is not supported; use ND, NCHW or NHWC");
}

// Statuses that GE's functions return. Errors are exceptions here, so only success is returned.
using graphStatus = std::uint32_t;
using Status = std::uint32_t;
inline constexpr graphStatus GRAPH_SUCCESS = 0;
inline constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
inline constexpr graphStatus GRAPH_NOT_CHANGED = 1343242304;
inline constexpr Status SUCCESS = 0;
inline constexpr Status FAILED = 0xFFFFFFFF;

class AscendString {
 public:
  AscendString() = default;
  AscendString(const char* text) : text_(text == nullptr ? "" : text) {}  // NOLINT: as in GE
  AscendString(std::string text) : text_(std::move(text)) {}              // NOLINT
  const char* GetString() const { return text_.c_str(); }
  std::size_t GetLength() const { return text_.size(); }
  bool operator==(const AscendString& other) const { return text_ == other.text_; }
  bool operator!=(const AscendString& other) const { return text_ != other.text_; }
  bool operator<(const AscendString& other) const { return text_ < other.text_; }

 private:
  std::string text_;
};

// Sizes; -1: determined at run time.
class Shape {
 public:
  Shape() = default;
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}
  std::size_t GetDimNum() const { return dims_.size(); }
  std::int64_t GetDim(std::size_t k) const { return dims_.at(k); }
  graphStatus SetDim(std::size_t k, std::int64_t value) {
    dims_.at(k) = value;
    return GRAPH_SUCCESS;
  }
  std::vector<std::int64_t> GetDims() const { return dims_; }
  std::int64_t GetShapeSize() const {
    std::int64_t size = 1;
    for (std::int64_t dim : dims_) size = dim < 0 || size < 0 ? -1 : size * dim;
    return size;
  }

 private:
  std::vector<std::int64_t> dims_;
};

class TensorDesc {
 public:
  TensorDesc() = default;
  explicit TensorDesc(Shape shape, Format format = FORMAT_ND, DataType type = DT_FLOAT)
      : shape_(std::move(shape)), format_(format), type_(type) {
    CheckFormat(format);
  }
  const Shape& GetShape() const { return shape_; }
  void SetShape(const Shape& shape) { shape_ = shape; }
  DataType GetDataType() const { return type_; }
  void SetDataType(DataType type) { type_ = type; }
  Format GetFormat() const { return format_; }
  void SetFormat(Format format) {
    CheckFormat(format);
    format_ = format;
  }
  // Layouts in memory are those of the shape.
  void SetOriginFormat(Format format) { SetFormat(format); }
  Format GetOriginFormat() const { return format_; }
  void SetOriginShape(const Shape& shape) { shape_ = shape; }
  const Shape& GetOriginShape() const { return shape_; }

 private:
  Shape shape_;
  Format format_ = FORMAT_ND;
  DataType type_ = DT_FLOAT;
};

class GNode;

// Copies are graphs of their own. Edges are changed in two steps: RemoveEdge, then AddDataEdge of a
// tensor of the same type to the same place, or RemoveNode of the reader.
class Graph : public gex::es::Graph {
 public:
  using DumpFormat = gex::es::DumpFormat;
  explicit Graph(gex_graph* graph) : gex::es::Graph(graph) {}
  explicit Graph(gex::es::Graph&& graph) : gex::es::Graph(std::move(graph)) {}
  Graph(const Graph& other) : gex::es::Graph(CopyOf(other)) {}
  Graph& operator=(const Graph& other) {
    if (this != &other) *this = Graph(other);
    return *this;
  }
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  static std::unique_ptr<Graph> Parse(std::string_view text) {
    return std::make_unique<Graph>(std::move(*gex::es::Graph::Parse(text)));
  }
  graphStatus GetName(AscendString& name) const {
    char* text = nullptr;
    gex::es::detail::Check(gex_graph_name(handle(), &text));
    name = gex::es::detail::Take(text);
    return GRAPH_SUCCESS;
  }
  graphStatus DumpToFile(DumpFormat format, const AscendString& suffix) const {
    gex::es::Graph::DumpToFile(format, suffix.GetString());
    return GRAPH_SUCCESS;
  }
  bool IsValid() const { return handle() != nullptr; }

  // With those of the inputs ("Data") first and one for all outputs ("NetOutput") last; not of
  // subgraphs. Valid as long as the graph and the node.
  std::vector<GNode> GetDirectNode() const;
  std::vector<GNode> GetAllNodes() const;
  std::shared_ptr<GNode> FindNodeByName(const AscendString& name) const;

  graphStatus RemoveEdge(GNode& source, std::int32_t output, GNode& reader, std::int32_t input);
  graphStatus AddDataEdge(GNode& source, std::int32_t output, GNode& reader, std::int32_t input);
  graphStatus RemoveNode(GNode& node);
  // Ends a series of edits: removes the nodes. An error if an edge was removed and not replaced.
  void FinishEdits();

 private:
  struct Edits {
    std::vector<std::pair<gex_value, std::int32_t>> removed_edges;  // of readers
    std::vector<gex_value> removed_nodes;
  };

  static gex_graph* CopyOf(const Graph& other) {
    gex_graph* clone = nullptr;
    gex::es::detail::Check(gex_graph_clone(other.handle(), &clone));
    return clone;
  }
  void EraseNodes();

  Edits edits_;
};
using GraphPtr = std::shared_ptr<Graph>;
using ConstGraphPtr = std::shared_ptr<const Graph>;

namespace es {

using gex::es::EsTensorHolder;

namespace detail {

// How this thread types inputs that are created without a type: in a pattern they match tensors of
// any type, in a replacement they have the types of the matched tensors.
struct InputTypes {
  bool in_pattern = false;
  std::vector<EsTensorHolder> matched;

  static InputTypes& OfThisThread() {
    static thread_local InputTypes types;
    return types;
  }
};

}  // namespace detail

class EsGraphBuilder : public gex::es::EsGraphBuilder {
 public:
  using Base = gex::es::EsGraphBuilder;
  using Base::Base;
  using Base::CreateConst;
  using Base::CreateInput;

  EsTensorHolder CreateInput(std::int64_t index) { return CreateInput(index, nullptr); }
  EsTensorHolder CreateInput(std::int64_t index, const char* name) {
    const detail::InputTypes& types = detail::InputTypes::OfThisThread();
    if (types.in_pattern)  // a matrix of one element can be an operand of most ops
      return CreateInput(index, name, gex::es::DType::f32, {1, 1});
    if (index >= 0 && index < static_cast<std::int64_t>(types.matched.size()))
      return CreateInputLike(index, types.matched[static_cast<std::size_t>(index)]);
    return Base::CreateInput(index, name);
  }
  template <std::size_t N>
  std::array<EsTensorHolder, N> CreateInputs(std::int64_t start = 0) {
    std::array<EsTensorHolder, N> inputs;
    for (std::size_t k = 0; k < N; ++k)
      inputs[k] = CreateInput(start + static_cast<std::int64_t>(k));
    return inputs;
  }
  std::vector<EsTensorHolder> CreateInputs(std::int64_t count, std::int64_t start = 0) {
    std::vector<EsTensorHolder> inputs;
    for (std::int64_t k = 0; k < count; ++k) inputs.push_back(CreateInput(start + k));
    return inputs;
  }

  EsTensorHolder CreateInput(std::int64_t index, const char* name, const char* type) {
    if (type != nullptr && std::string(type) != "Data")
      throw gex::es::Error(GEX_UNSUPPORTED, "input " + std::to_string(index) + " has the type '" +
                                                type + "'; inputs here are 'Data'");
    return CreateInput(index, name);
  }
  EsTensorHolder CreateInput(std::int64_t index, const char* name, DataType type, Format format,
                             const std::vector<std::int64_t>& shape) {
    CheckFormat(format);
    gex::es::Shape sizes;
    for (std::size_t k = 0; k < shape.size(); ++k)  // -1: determined at run time
      sizes.push_back(shape[k] == -1 ? gex::es::Size("input" + std::to_string(index) + "_dim" +
                                                     std::to_string(k))
                                     : gex::es::Size(shape[k]));
    return CreateInput(index, name, ToDType(type), sizes);
  }
  std::unique_ptr<Graph> Build() { return std::make_unique<Graph>(std::move(*Base::Build())); }
  std::unique_ptr<Graph> BuildAndReset() { return Build(); }
  std::unique_ptr<Graph> BuildAndReset(const std::vector<EsTensorHolder>& outputs) {
    return std::make_unique<Graph>(std::move(*Base::BuildAndReset(outputs)));
  }

  EsTensorHolder CreateInput(std::int64_t index, const char* name, const TensorDesc& desc) {
    return CreateInput(index, name, desc.GetDataType(), desc.GetFormat(),
                       desc.GetShape().GetDims());
  }
  template <class T>
  EsTensorHolder CreateConst(const std::vector<T>& values, const std::vector<std::int64_t>& dims,
                             DataType type, Format format = FORMAT_ND) {
    CheckFormat(format);
    return CreateConst(values, dims, ToDType(type));
  }
};

}  // namespace es
}  // namespace ge
