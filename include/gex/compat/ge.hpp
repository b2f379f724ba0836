#pragma once
// The graph-building names of GE (namespaces ge and ge::es) over gex: programs written for GE's
// EsGraphBuilder compile unchanged with this header and link with -lgex only. Where GE returns a
// null holder or a status, this throws gex::es::Error on the line of the mistake.

#include <cstdint>
#include <memory>
#include <string>
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

using Graph = gex::es::Graph;

namespace es {

using gex::es::EsTensorHolder;

class EsGraphBuilder : public gex::es::EsGraphBuilder {
 public:
  using Base = gex::es::EsGraphBuilder;
  using Base::Base;
  using Base::CreateConst;
  using Base::CreateInput;

  EsTensorHolder CreateInput(std::int64_t index, const char* name, const char* type) {
    if (type != nullptr && std::string(type) != "Data")
      throw gex::es::Error(GEX_UNSUPPORTED, "input " + std::to_string(index) + " has the type '" +
                                                type + "'; inputs here are 'Data'");
    return CreateInput(index, name);
  }
  EsTensorHolder CreateInput(std::int64_t index, const char* name, DataType type, Format format,
                             const std::vector<std::int64_t>& shape) {
    CheckFormat(format);
    return CreateInput(index, name, ToDType(type), gex::es::Shape(shape.begin(), shape.end()));
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
