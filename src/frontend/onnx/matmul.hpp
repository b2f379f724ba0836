#pragma once
#include "frontend/onnx/row.hpp"

namespace gex::onnx {

// NumPy's matmul: one-dimensional operands get an axis that the result loses again.
Value* matmul_any_rank(Graph& g, Value* a, Value* b);
double determinant(std::vector<double> matrix, std::size_t n);

}  // namespace gex::onnx
