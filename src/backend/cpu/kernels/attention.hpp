#pragma once
// The attention of problems/attention.hpp on the CPU, with an online softmax, so that no score
// matrix is stored. Keys that causality hides from all queries of a block are not read.

#include "backend/cpu/kernels/attention_scratch.hpp"
#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/cpu/kernels/simd/context.hpp"
#include "base/dim/dim.hpp"
#include "problems/attention.hpp"
#include "program/kernel_abi.hpp"

namespace gex::kernels {

using problems::AttentionProblem;

Dim attention_grid(const AttentionProblem& problem, Dim batch, Dim heads, Dim kv_heads,
                   Dim queries);
Dim attention_scratch_bytes(const AttentionProblem& problem, Dim head_size, Dim value_size);

// UserError(unsupported) for dtypes other than those above.
program::Callable make_attention(const AttentionProblem& problem, const Attached& attached = {},
                                 const Variant* variant = nullptr);

}  // namespace gex::kernels
