#pragma once
// The grouped matmuls of problems/grouped_matmul.hpp on the CPU. The grid and scratch of the weight
// gradient are those of the matmul with the same dims.

#include "backend/cpu/kernels/matmul.hpp"
#include "problems/grouped_matmul.hpp"

namespace gex::kernels {

using problems::GroupedMatmulProblem;

Dim grouped_matmul_grid(Dim columns);
Dim grouped_matmul_scratch_bytes(const GroupedMatmulProblem& problem);
program::Callable make_grouped_matmul(const GroupedMatmulProblem& problem);
program::Callable make_grouped_weight_grad(const GroupedMatmulProblem& problem);

}  // namespace gex::kernels
