#include "runtime/drivers/cuda/library.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace gex::runtime::cuda {

namespace {

namespace at = problems::matmul_dims;

constexpr int kReal32 = 0, kReal64 = 1, kReal16 = 2, kBrain16 = 14;
constexpr int kCompute32 = 68, kCompute64 = 70;
constexpr int kDefaultAlgorithm = -1;

int data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kReal32;
    case DType::f64:
      return kReal64;
    case DType::f16:
      return kReal16;
    case DType::bf16:
      return kBrain16;
    default:
      fail(ErrorCode::unsupported, "cuBLAS: no matmul of ", dtype);
  }
}

int to_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max())
    fail(ErrorCode::unsupported, "cuBLAS: a size of ", value, " does not fit 32 bits");
  return static_cast<int>(value);
}

// A matrix of `rows` x `cols` in memory: row-major with a row stride, or its transpose.
struct Matrix {
  bool transposed;
  int leading;
};
// `count` lines of `length` elements. The stride of one line has no meaning.
int leading_stride(std::int64_t stride, std::int64_t count, std::int64_t length) {
  GEX_CHECK(count <= 1 || stride >= length, "cuBLAS: lines of ", length, " elements overlap");
  return to_int(std::max(stride, std::max<std::int64_t>(length, 1)));
}
Matrix matrix(const std::int64_t* strides, std::int64_t rows, std::int64_t cols) {
  if (strides[3] == 1 || cols == 1) return {false, leading_stride(strides[2], rows, cols)};
  return {true, leading_stride(strides[3], cols, rows)};
}

}  // namespace

void launch_matmul(const problems::MatmulProblem& problem, const std::int64_t* addresses,
                   const std::int64_t* dims, const nvidia::CublasApi& cublas, void* handle) {
  const std::int64_t m = dims[at::m], n = dims[at::n], k = dims[at::k];
  const Matrix a = matrix(dims + at::a_strides, m, k), b = matrix(dims + at::b_strides, k, n);
  const Matrix c = matrix(dims + at::c_strides, m, n);
  GEX_CHECK(!c.transposed && dims[at::batch0] == 1, "a product that cuBLAS can't compute");
  const bool wide = problem.a == DType::f64;
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const void* alpha = wide ? static_cast<const void*>(&wide_one) : &one;
  const void* beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
  // The library is column-major: it computes the transposed product, operands swapped.
  const nvidia::Result result = cublas.gemm(
      handle, b.transposed ? 1 : 0, a.transposed ? 1 : 0, to_int(n), to_int(m), to_int(k), alpha,
      reinterpret_cast<const void*>(addresses[1]), data_type(problem.b), b.leading,
      dims[at::b_strides + 1], reinterpret_cast<const void*>(addresses[0]), data_type(problem.a),
      a.leading, dims[at::a_strides + 1], beta, reinterpret_cast<void*>(addresses[2]),
      data_type(problem.c), c.leading, dims[at::c_strides + 1], to_int(dims[at::batch1]),
      wide ? kCompute64 : kCompute32, kDefaultAlgorithm);
  if (result != 0)
    fail(ErrorCode::device_error, "cuBLAS: a product of [", dims[at::batch1], ", ", m, ", ", k,
         "] and [", k, ", ", n, "] of ", problem.a, " failed with code ", result);
}

}  // namespace gex::runtime::cuda
