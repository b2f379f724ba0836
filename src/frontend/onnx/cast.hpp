#pragma once
#include "frontend/onnx/row.hpp"

namespace gex::onnx {

// ONNX Cast between storage dtypes. `saturate` and `round` matter for float8.
Value* cast_elem(Row& r, Value* value, Elem from, Elem to, bool saturate = true,
                 const std::string& round = "up");

}  // namespace gex::onnx
