#pragma once
// Matmuls with quantised weights (problems/quantised_matmul.hpp). Rows are multiplied by the
// integers as they are stored, widened in registers, or by columns that are widened one after the
// other.

#include "backend/cpu/kernels/epilogue.hpp"
#include "base/dim/dim.hpp"
#include "problems/quantised_matmul.hpp"

namespace gex::kernels {

struct Variant;

using problems::QuantisedMatmulProblem;

Dim quantised_matmul_grid(Dim m, Dim n);
// For each worker, without what the epilogue itself asks for.
Dim quantised_matmul_scratch_bytes(const QuantisedMatmulProblem& problem, Dim m, Dim k);

// UserError(unsupported) for dtypes and numbers of bits other than those of the problem's
// description. The variant is the best one of this machine unless one is given.
program::Callable make_quantised_matmul(const QuantisedMatmulProblem& problem,
                                        const Attached& attached = {},
                                        const Variant* variant = nullptr);

}  // namespace gex::kernels
