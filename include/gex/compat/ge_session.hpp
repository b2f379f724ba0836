#pragma once
// GE's way of running graphs (ge::Tensor, ge::Session) over gex. Graphs are compiled when they are
// added. Errors are exceptions of gex::es::Error; a function that returns has succeeded.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gex/compat/ge.hpp"

namespace ge {

inline DataType ToDataType(gex::es::DType type) {
  for (DataType known : {DT_FLOAT, DT_FLOAT16, DT_INT8, DT_INT32, DT_UINT8, DT_INT16, DT_INT64,
                         DT_DOUBLE, DT_BOOL, DT_BF16})
    if (ToDType(known) == type) return known;
  throw gex::es::Error(GEX_UNSUPPORTED,
                       std::string("GE has no data type for ") + gex::es::NameOf(type));
}

// Copies share their elements.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const TensorDesc& desc)
      : desc_(desc), tensor_(ToDType(desc.GetDataType()), desc.GetShape().GetDims()) {}
  Tensor(const TensorDesc& desc, const std::uint8_t* data, std::size_t size) : Tensor(desc) {
    SetData(data, size);
  }
  explicit Tensor(gex::es::Tensor tensor)
      : desc_(Shape(tensor.shape()), FORMAT_ND, ToDataType(tensor.dtype())),
        tensor_(std::move(tensor)) {}

  const TensorDesc& GetTensorDesc() const { return desc_; }
  // Elements are set afterwards.
  graphStatus SetTensorDesc(const TensorDesc& desc) {
    *this = Tensor(desc);
    return GRAPH_SUCCESS;
  }
  DataType GetDataType() const { return desc_.GetDataType(); }
  const ge::Shape& GetShape() const { return desc_.GetShape(); }
  std::uint8_t* GetData() { return static_cast<std::uint8_t*>(tensor_.data()); }
  const std::uint8_t* GetData() const { return static_cast<const std::uint8_t*>(tensor_.data()); }
  std::size_t GetSize() const { return gex::es::detail::BytesOf(tensor_.dtype(), tensor_.shape()); }
  graphStatus SetData(const std::uint8_t* data, std::size_t size) {
    if (size != GetSize())
      throw gex::es::Error(GEX_SHAPE_MISMATCH, std::to_string(size) + " bytes for a tensor of " +
                                                   tensor_.text() + ", which has " +
                                                   std::to_string(GetSize()));
    if (size != 0) std::memcpy(tensor_.data(), data, size);
    return GRAPH_SUCCESS;
  }
  const gex::es::Tensor& tensor() const { return tensor_; }

 private:
  TensorDesc desc_;
  gex::es::Tensor tensor_;
};

namespace es {

template <class T>
std::unique_ptr<Tensor> CreateTensor(const T* data, const std::int64_t* dims, std::int64_t dim_num,
                                     DataType type, Format format = FORMAT_ND) {
  auto tensor = std::make_unique<Tensor>(
      TensorDesc(ge::Shape(std::vector<std::int64_t>(dims, dims + dim_num)), format, type));
  tensor->SetData(reinterpret_cast<const std::uint8_t*>(data), tensor->GetSize());
  return tensor;
}

}  // namespace es

using Options = std::map<AscendString, AscendString>;

// Nothing has to be started or stopped here.
inline Status GEInitialize(const Options& /*options*/ = {}) { return SUCCESS; }
inline Status GEFinalize() { return SUCCESS; }

class Session {
 public:
  Session() = default;
  explicit Session(const Options& /*options*/) {}

  Status AddGraph(std::uint32_t id, const Graph& graph, const Options& /*options*/ = {}) {
    if (programs_.contains(id))
      throw gex::es::Error(GEX_INVALID_ARGUMENT,
                           "graph " + std::to_string(id) + " was added already");
    programs_.emplace(id, graph.Compile());
    return SUCCESS;
  }
  Status RemoveGraph(std::uint32_t id) {
    Find(id);
    programs_.erase(id);
    return SUCCESS;
  }
  // A graph runs for any sizes: it is never compiled again.
  bool IsGraphNeedRebuild(std::uint32_t id) {
    Find(id);
    return false;
  }
  Status RunGraph(std::uint32_t id, const std::vector<Tensor>& inputs,
                  std::vector<Tensor>& outputs) {
    std::vector<gex::es::Tensor> arguments;
    for (const Tensor& input : inputs) arguments.push_back(input.tensor());
    outputs.clear();
    for (gex::es::Tensor& result : Find(id).Run(arguments)) outputs.emplace_back(std::move(result));
    return SUCCESS;
  }

 private:
  const gex::es::Program& Find(std::uint32_t id) const {
    const auto at = programs_.find(id);
    if (at == programs_.end())
      throw gex::es::Error(GEX_NOT_FOUND, "no graph " + std::to_string(id) + " was added");
    return at->second;
  }

  std::map<std::uint32_t, gex::es::Program> programs_;
};

}  // namespace ge
