#pragma once
// Helpers shared by several families of rows.

#include "frontend/onnx/row.hpp"

namespace gex::onnx {

Value* dims_tensor(Graph& g, const Dims& dims);  // i64[dims.size()]
// Indices as i64, negative ones counted from the end.
Value* nonnegative(Graph& g, Value* indices, Dim size);
// Reshape's rules: 0 copies a size, -1 is inferred.
Dims resolved_shape(const Row& r, const Dims& wanted, const Shape& from, bool allow_zero);
// mode: constant, reflect, edge or wrap. `fill` may be null for zero.
Value* padded(const Row& r, Value* x, const Dims& low, const Dims& high, const std::string& mode,
              Value* fill);

}  // namespace gex::onnx
