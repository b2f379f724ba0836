#pragma once
// Element types of ONNX in terms of gex's. Values in a graph have the carrier's dtype:
//   uint16, uint32        wider signed integers (i32, i64), wrapped after arithmetic
//   uint64                i64 with the same bits
//   int4, uint4, int2 ... one element for each byte (i8, u8)
//   float8, float6, float4  their codes (u8); only casts look at the numbers
//   string                i64, see strings.hpp
// Tensors outside of graphs have the type of their memory: uint16 as i16, uint32 as i32. Elements
// of 4 and 2 bits are in the low bits of a byte each; the other bits are ignored.

#include <cstdint>
#include <vector>

#include "base/tensor.hpp"
#include "frontend/onnx/model.hpp"
#include "ir/graph.hpp"

namespace gex::onnx {

DType storage_dtype(Elem elem);  // UserError(unsupported) for complex numbers
DType memory_type_of(Elem elem);
bool is_small_float(Elem elem);  // 8 bits or fewer
bool is_unsigned(Elem elem);
bool is_float(Elem elem);  // f64, f32, f16, bf16
int bits_of(Elem elem);

// Conversion between memory and storage dtype.
Value* from_memory(Graph& g, Value* memory, Elem elem);
Value* to_memory(Graph& g, Value* carried, Elem elem);
HostTensor to_storage(const HostTensor& memory, Elem elem);
HostTensor to_memory(const HostTensor& carried, Elem elem);

// Arithmetic on a storage dtype wider than the element type may exceed its range.
Value* wrap(Graph& g, Value* carried, Elem elem);

// The number of a code, and the code of a number, rounded to nearest even. Numbers too large become
// the largest one if `saturate`, else infinity or NaN. `round_up`: for float8e8m0, away from zero.
float small_float_value(Elem elem, unsigned code);
Value* decode_small_float(Graph& g, Value* codes, Elem elem);  // f32
Value* encode_small_float(Graph& g, Value* x, Elem elem, bool saturate, const std::string& round);

// The numbers of a stored tensor in its storage dtype. UserError if the count does not match its
// sizes.
HostTensor tensor_of(const ModelProto* model, const TensorProto& tensor);
HostTensor tensor_of(const ModelProto* model, const SparseTensorProto& tensor);

}  // namespace gex::onnx
