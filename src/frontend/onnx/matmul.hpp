#pragma once
#include "frontend/onnx/row.hpp"

namespace gex::onnx {

// NumPy's matmul: 1-d operands get an axis that is removed from the result.
Value* matmul_any_rank(Graph& g, Value* a, Value* b);
// Gemm.
Value* general_product(Row& r);
double determinant(std::vector<double> matrix, std::size_t n);

}  // namespace gex::onnx
