#pragma once
// Products of bf16 matrices by the machine's own dot products of bf16 pairs, in place of
// Form::packed. They take half the time of products widened to f32 and sum in f32 as well, but
// subnormal numbers count as zero, in operands and in sums.

#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/simd/context.hpp"

namespace gex::kernels {

// For this problem on this machine, or null. Context, buffers, dims, grid and scratch are those of
// a matmul.
RangeFn bf16_pairs(const MatmulProblem& problem);

}  // namespace gex::kernels
