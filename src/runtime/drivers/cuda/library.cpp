#include "runtime/drivers/cuda/library.hpp"

#include <limits>
#include <sstream>

#include "base/error.hpp"

namespace gex::runtime::cuda {

namespace {

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

}  // namespace

MatmulProblem parse_matmul(const std::string& source) {
  std::istringstream words(source);
  std::string word;
  MatmulProblem problem;
  words >> word;
  const bool known = word == "matmul";
  words >> word;
  const auto dtype = dtype_from_name(word);
  if (!known || !dtype)
    fail(ErrorCode::unsupported, "cuBLAS: expected a line such as \"matmul f32 tb\", got \"",
         source, "\"");
  problem.dtype = *dtype;
  data_type(*dtype);
  while (words >> word) {
    if (word == "ta") {
      problem.trans_a = true;
    } else if (word == "tb") {
      problem.trans_b = true;
    } else {
      fail(ErrorCode::unsupported, "cuBLAS: unknown word \"", word, "\" in \"", source, "\"");
    }
  }
  return problem;
}

void launch_matmul(const MatmulProblem& problem, const std::int64_t* addresses,
                   const std::int64_t* dims, const CublasApi& cublas, void* handle) {
  for (int i = 0; i < 4; ++i)
    if (dims[i] > std::numeric_limits<int>::max())
      fail(ErrorCode::unsupported, "cuBLAS: a size of ", dims[i], " does not fit 32 bits");
  const auto batch = static_cast<int>(dims[0]), m = static_cast<int>(dims[1]);
  const auto n = static_cast<int>(dims[2]), k = static_cast<int>(dims[3]);
  const auto* a = reinterpret_cast<const void*>(addresses[0]);
  const auto* b = reinterpret_cast<const void*>(addresses[1]);
  auto* c = reinterpret_cast<void*>(addresses[2]);
  const bool wide = problem.dtype == DType::f64;
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const void* alpha = wide ? static_cast<const void*>(&wide_one) : &one;
  const void* beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
  const int type = data_type(problem.dtype);
  // The library is column-major: it computes the transposed product, operands swapped.
  const Result result = cublas.gemm(
      handle, problem.trans_b ? 1 : 0, problem.trans_a ? 1 : 0, n, m, k, alpha, b, type,
      problem.trans_b ? k : n, static_cast<long long>(n) * k, a, type, problem.trans_a ? m : k,
      static_cast<long long>(m) * k, beta, c, type, n, static_cast<long long>(m) * n, batch,
      wide ? kCompute64 : kCompute32, kDefaultAlgorithm);
  if (result != 0)
    fail(ErrorCode::device_error, "cuBLAS: matmul [", batch, ", ", m, ", ", k, "] x [", k, ", ", n,
         "] of ", problem.dtype, " failed with code ", result);
}

}  // namespace gex::runtime::cuda
