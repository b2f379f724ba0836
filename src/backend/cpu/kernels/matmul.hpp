#pragma once
// The matrix product of problems/matmul.hpp on the CPU: blocked, packed, with an optional epilogue.
// The grid counts units of kUnitRows x kUnitCols of the output; any split of it gives the same
// bits, and long ranges run faster than many short ones because packing is shared within a range.

#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/cpu/kernels/form.hpp"
#include "backend/cpu/kernels/pack_dims.hpp"
#include "backend/cpu/kernels/tiles.hpp"
#include "base/dim/dim.hpp"
#include "problems/matmul.hpp"

namespace gex::kernels {

struct Variant;

using problems::MatmulProblem;

Dim matmul_grid(const MatmulProblem& problem, Dim batch, Dim m, Dim n, Dim k);
// Scratch of a worker, without that of the epilogue.
Dim matmul_scratch_bytes(const MatmulProblem& problem, Dim batch, Dim m, Dim n, Dim k);

// UserError(unsupported) for dtypes other than those above. The variant is the best one of this
// machine, and the form is selected by the kernel's heuristic, unless a candidate is given
// (tuning_candidates.hpp).
program::Callable make_matmul(const MatmulProblem& problem, const Attached& attached = {},
                              const Variant* variant = nullptr, Form form = Form::by_rule);

// B packed ahead of time (frozen weights): panels [batch][ceil(N/panel)][K][panel] in B's dtype;
// for bf16 [ceil(K/2)][panel][2], see simd/pairs.hpp. Launch: buffers [B, packed], dims pack_dims,
// no scratch. Strides of the packed B in a matmul launch: batch1 = matmul_packed_elements(1 batch),
// batch0 = batch1's size times that.
Dim matmul_pack_grid(const MatmulProblem& problem, Dim batch, Dim n, Dim k);
Dim matmul_packed_elements(const MatmulProblem& problem, Dim batch, Dim n, Dim k);
program::Callable make_matmul_pack(const MatmulProblem& problem, const Variant* variant = nullptr);

}  // namespace gex::kernels
