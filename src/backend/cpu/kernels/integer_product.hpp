#pragma once
// Products of 8-bit integers: the matmuls of problems/ whose operands are i8 or u8. Sums are exact
// modulo 2^32, so any split of the grid gives the same bits. Results are i32, and so is what an
// epilogue receives.

#include "backend/cpu/kernels/epilogue.hpp"
#include "base/dim/dim.hpp"
#include "base/dtype.hpp"
#include "problems/matmul.hpp"

namespace gex::kernels {

using problems::MatmulProblem;

constexpr bool is_byte(DType dtype) { return dtype == DType::i8 || dtype == DType::u8; }
inline bool is_integer_product(const MatmulProblem& p) { return is_byte(p.a); }

Dim integer_matmul_grid(Dim batch, Dim m, Dim n);
// For each worker, without what the epilogue itself asks for. `depth`: products of a sum.
Dim integer_matmul_scratch_bytes(Dim depth);

program::Callable make_integer_matmul(const MatmulProblem& problem, const Attached& attached = {});

// B packed ahead of time: for each 16 columns a panel [ceil(K/4)][16][4] of signed bytes, then the
// panel's 16 column sums in 32 bits. Launch: buffers [B, packed], dims pack_dims, no scratch.
Dim integer_matmul_pack_grid(Dim batch, Dim n);
Dim integer_matmul_packed_bytes(Dim batch, Dim n, Dim k);
program::Callable make_integer_matmul_pack(const MatmulProblem& problem);

}  // namespace gex::kernels
