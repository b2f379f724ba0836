// Compiled with the machine flags in its name; see kernels.cmake and bf16_pairs.hpp.
#define GEX_VARIANT avx512_bf16
#include "backend/cpu/kernels/simd/attention_pairs.hpp"
#include "backend/cpu/kernels/simd/matmul_by_pairs.hpp"
#include "backend/cpu/kernels/simd/quantised.hpp"

namespace gex::kernels::GEX_VARIANT {

extern const RangeFn matmul_by_pairs;
const RangeFn matmul_by_pairs = &run_by_pairs;
extern const RangeFn quantised_by_pairs;
const RangeFn quantised_by_pairs = &quantised_matmul;
extern const RangeFn attention_by_pairs;
const RangeFn attention_by_pairs = &run_attention_by_pairs;

}  // namespace gex::kernels::GEX_VARIANT
