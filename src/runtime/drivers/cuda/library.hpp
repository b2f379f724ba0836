#pragma once
// Launches that a vendor library serves: code with target "cublas", whose source is one line:
//
//   matmul f32          c[b, m, n] = a[b, m, k] * b[b, k, n], all dense, row-major
//   matmul bf16 tb      b stored as [b, n, k]; likewise ta for a as [b, k, m]
//
// Buffers: a, b, c. Dims: batch, m, n, k. Accumulates in f32 (f64 for f64).

#include <cstdint>
#include <string>

#include "base/dtype.hpp"
#include "runtime/drivers/cuda/api.hpp"

namespace gex::runtime::cuda {

struct MatmulProblem {
  DType dtype = DType::f32;
  bool trans_a = false, trans_b = false;
  // Rows may be computed past the real m, on memory that is there but holds anything: they reach no
  // other row. The other sizes are strides or are summed over, and must be exact.
  bool rows_may_be_padded() const { return !trans_a; }
};

// UserError(unsupported) if the text is not as above.
MatmulProblem parse_matmul(const std::string& source);

// words: three addresses. dims: batch, m, n, k.
void launch_matmul(const MatmulProblem& problem, const std::int64_t* addresses,
                   const std::int64_t* dims, const CublasApi& cublas, void* handle);

}  // namespace gex::runtime::cuda
