#pragma once
// C = A * B of two bf16 matrices whose depth is not adjacent in either (a sum of outer products of
// rows, as gradients of weights are), by the machine's own dot products of bf16 pairs. They take
// half the time of products widened to f32, and sum in f32 as well.

#include <cstdint>

#include "kernels/matmul.hpp"
#include "kernels/simd/context.hpp"

namespace gex::kernels {

// Whether this machine can, for operands and a result that lie as `dims` (of a matmul) say.
bool has_bf16_outer(const MatmulProblem& problem, const std::int64_t* dims);

// Context, buffers, dims, grid and scratch are those of a matmul without batch and epilogue.
extern const RangeFn bf16_outer;

}  // namespace gex::kernels
