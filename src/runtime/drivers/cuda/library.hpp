#pragma once
// Matmuls by cuBLAS: a matmul problem without attached kernels whose operands have unit strides
// along one of their two axes.

#include <cstdint>

#include "nvidia/api.hpp"
#include "problems/matmul.hpp"

namespace gex::runtime::cuda {

// words: the launch's addresses (A, B, C). dims: as problems::matmul_dims says.
void launch_matmul(const problems::MatmulProblem& problem, const std::int64_t* addresses,
                   const std::int64_t* dims, const nvidia::CublasApi& cublas, void* handle);

}  // namespace gex::runtime::cuda
