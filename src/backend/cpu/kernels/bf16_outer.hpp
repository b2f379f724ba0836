#pragma once
// C = A * B of two bf16 matrices whose depth is not adjacent in either (a sum of outer products of
// rows, as gradients of weights are), by the machine's own dot products of bf16 pairs. They take
// half the time of products widened to f32, and sum in f32 as well.

#include <cstdint>

#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/simd/context.hpp"

namespace gex::kernels {

// Whether this machine can, for operands and a result that lie as `dims` (of a matmul) say.
bool has_bf16_outer(const MatmulProblem& problem, const std::int64_t* dims);

// The machine takes subnormal numbers for zero. Where every element is zero or at least 2^-55, all
// products and sums are multiples of 2^-124, so none is ever subnormal: whether some element of
// [rows][cols] is smaller, for which this form is not to be used.
using HasTinyFn = bool (*)(const void* matrix, std::int64_t rows, std::int64_t row_stride,
                           std::int64_t cols);
extern const HasTinyFn bf16_has_tiny;

// Context, buffers, dims, grid and scratch are those of a matmul without batch and epilogue.
extern const RangeFn bf16_outer;

}  // namespace gex::kernels
