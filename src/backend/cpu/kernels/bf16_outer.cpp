#include "backend/cpu/kernels/bf16_outer.hpp"

#include "problems/matmul.hpp"

namespace gex::kernels {

namespace {

bool has_pairs() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace

#if !defined(__x86_64__)
const RangeFn bf16_outer = nullptr;
const HasTinyFn bf16_has_tiny = nullptr;
#endif

bool has_bf16_outer(const MatmulProblem& p, const std::int64_t* dims) {
  static const bool here = has_pairs();
  namespace at = matmul_dims;
  return here && p.a == DType::bf16 && p.b == DType::bf16 && !p.b_packed &&
         dims[at::a_strides + 2] == 1 && dims[at::b_strides + 3] == 1;
}

}  // namespace gex::kernels
