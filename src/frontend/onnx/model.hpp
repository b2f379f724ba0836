#pragma once
// An ONNX model as read from its file: plain structs named as in onnx.proto. Tensor data stays
// where it is (the file's bytes or a mapped file of external data) until it is read.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.hpp"

namespace gex::onnx {

// TensorProto.DataType, with its numbers.
enum class Elem : std::int32_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  c64 = 14,
  c128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26,
};
std::string_view name_of(Elem elem);

// The file's bytes, or a mapped file: kept alive by its users.
using Bytes = std::shared_ptr<const std::string_view>;

struct TensorProto {
  std::string name;
  Elem elem = Elem::undefined;
  std::vector<std::int64_t> dims;
  std::string_view raw;
  bool has_raw = false;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> ints;  // int32_data, int64_data or uint64_data
  std::vector<std::string> strings;
  std::map<std::string, std::string> external;  // location, offset, length
  bool is_external = false;
};

struct SparseTensorProto {
  TensorProto values, indices;
  std::vector<std::int64_t> dims;
};

struct TypeProto {
  enum class Kind { none, tensor, sequence, optional, map, sparse } kind = Kind::none;
  Elem elem = Elem::undefined;
  struct Size {
    std::optional<std::int64_t> value;
    std::string symbol;
  };
  std::optional<std::vector<Size>> shape;  // absent: any rank
  std::shared_ptr<TypeProto> inner;        // of sequences and optionals
};

struct ValueInfo {
  std::string name;
  TypeProto type;
};

struct GraphProto;

struct AttributeProto {
  std::string name, reference;  // reference: the attribute of the enclosing function
  double f = 0;
  std::int64_t i = 0;
  std::string s;
  std::shared_ptr<TensorProto> tensor;
  std::shared_ptr<SparseTensorProto> sparse;
  std::shared_ptr<GraphProto> graph;
  std::vector<double> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
  std::vector<TensorProto> tensors;
  std::shared_ptr<TypeProto> type;
  std::int64_t kind = 0;  // AttributeProto.AttributeType
};

struct NodeProto {
  std::vector<std::string> inputs, outputs;
  std::string name, op, domain, overload;
  std::vector<AttributeProto> attributes;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initialisers;
  std::vector<SparseTensorProto> sparse_initialisers;
  std::vector<ValueInfo> inputs, outputs, values;
};

struct FunctionProto {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<AttributeProto> attributes;  // with default values
  std::vector<NodeProto> nodes;
  std::map<std::string, std::int64_t> opsets;
};

struct ModelProto {
  std::int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, std::int64_t> opsets;  // by domain; "" is the default one
  GraphProto graph;
  std::vector<FunctionProto> functions;
  std::map<std::string, std::string> metadata;

  std::string folder;  // of external data; empty: none
  Bytes bytes;
  mutable std::map<std::string, Bytes> mapped;  // files of external data
};

// UserError(parse_error) if the bytes are not a model. `folder`: where files of external data are
// searched; without one they are rejected.
std::shared_ptr<const ModelProto> parse_model(Bytes bytes, std::string folder = {});
std::shared_ptr<const ModelProto> read_model(const std::string& path);
Bytes map_file(const std::string& path);
Bytes own_bytes(std::string bytes);
TensorProto parse_tensor(std::string_view bytes);

// The little-endian bytes of a tensor stored raw, inline or in a mapped file. `model` may be null
// for standalone tensors.
std::string_view raw_bytes(const ModelProto* model, const TensorProto& tensor);

}  // namespace gex::onnx
