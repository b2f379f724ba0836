#pragma once
// From the C interface's plain structs to the types of the engine, with every field checked.

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/tensor.hpp"
#include "gex/gex.h"
#include "ir/attrs.hpp"
#include "ir/op_def.hpp"
#include "ir/type.hpp"

namespace gex::capi {

using Symbols = std::unordered_map<std::string, Dim>;

DType to_dtype(gex_dtype dtype, const char* what);
gex_dtype from_dtype(DType dtype);

// Names must be known, except that `declare` takes a bare unknown name as a new symbol.
Dim to_dim(const gex_size& size, Symbols& symbols, bool declare, const char* what);
// The known part of the size in bytes must fit 63 bits: the engine counts in int64.
void check_bytes(const Type& type);
// UserError: more axes than supported.
void check_rank(std::size_t rank, const std::string& what);
// Checks that sizes are not negative and the size in bytes does not overflow. `symbols` changes
// only on success.
Type to_type(gex_dtype dtype, const gex_size* shape, std::size_t rank, Symbols& symbols);

// A tensor of the caller with its strides filled in.
struct TensorView {
  DType dtype = DType::f32;
  void* data = nullptr;
  std::vector<std::int64_t> shape, strides;

  std::string text() const;  // "f32[2, 3]"
  bool empty() const;
};
// `data` may be null only if the tensor is empty or `need_data` is false.
TensorView to_view(const gex_tensor& tensor, bool need_data, const std::string& what);
HostTensor to_host(const TensorView& view);
// The elements in another dtype. UserError if an integer or bool can't hold the value.
HostTensor converted(const HostTensor& tensor, DType dtype);

// Converted to the kind in the op's schema for this name, if the C kind allows it.
std::pair<std::string, AttrValue> to_attr(const gex_attr& attr, const OpDef& op, Symbols& symbols);

// A label of a node or graph: a bool, an integer or a string.
std::pair<std::string, AttrValue> to_label(const gex_attr& attr, Symbols& symbols);

// Element k of an array whose element size is that of the caller's version of gex.h.
template <class T>
T* element(T* array, std::size_t k) {
  using Byte = std::conditional_t<std::is_const_v<T>, const unsigned char, unsigned char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(array) + k * array->struct_size);
}

}  // namespace gex::capi
