#include "backend/cpu/kernels/bf16_pairs.hpp"

#include "backend/cpu/kernels/matmul_scratch.hpp"
#include "base/cpu_level.hpp"
#include "problems/matmul.hpp"

namespace gex::kernels {

#if defined(GEX_KERNELS_X86)

namespace avx512_bf16 {
extern const RangeFn matmul_by_pairs;
extern const RangeFn quantised_by_pairs;
extern const RangeFn attention_by_pairs;
}  // namespace avx512_bf16

namespace {

bool find_pairs() {
  __builtin_cpu_init();
  return cpu_level_limit() >= 4 && __builtin_cpu_supports("avx512bf16") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

bool has_pairs() {
  static const bool here = find_pairs();
  return here;
}

}  // namespace

RangeFn bf16_pairs(const MatmulProblem& problem) {
  const bool fits = reads_pairs(problem.a, problem.b) && !problem.keep_subnormals;
  return has_pairs() && fits ? avx512_bf16::matmul_by_pairs : nullptr;
}

RangeFn bf16_pairs(const AttentionProblem& problem) {
  const bool fits = problem.qkv == DType::bf16 && !problem.keep_subnormals;
  return has_pairs() && fits ? avx512_bf16::attention_by_pairs : nullptr;
}

RangeFn quantised_by_pairs() { return has_pairs() ? avx512_bf16::quantised_by_pairs : nullptr; }

#else

RangeFn bf16_pairs(const MatmulProblem&) { return nullptr; }
RangeFn bf16_pairs(const AttentionProblem&) { return nullptr; }
RangeFn quantised_by_pairs() { return nullptr; }

#endif

}  // namespace gex::kernels
