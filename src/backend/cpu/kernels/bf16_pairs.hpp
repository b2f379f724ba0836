#pragma once
// Matmuls and attention of bf16 with the processor's dot-product instruction on pairs of bf16,
// instead of kernels that widen it to f32. They take half the time and also sum in f32, but flush
// subnormal numbers to zero, in operands and sums.

#include "backend/cpu/kernels/attention.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/simd/context.hpp"

namespace gex::kernels {

// The kernel for this problem on this machine, or null. Context, buffers, dims, grid and scratch
// are those of a matmul, where it replaces Form::packed, or of attention of more than a few rows.
RangeFn bf16_pairs(const MatmulProblem& problem);
RangeFn bf16_pairs(const AttentionProblem& problem);
// Likewise for matmuls of bf16 rows with quantised weights (quantised_matmul.hpp).
RangeFn quantised_by_pairs();

}  // namespace gex::kernels
