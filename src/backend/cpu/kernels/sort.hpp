#pragma once
// The sort of problems/sort.hpp on the CPU: one grid unit per row.

#include "base/dim/dim.hpp"
#include "problems/sort.hpp"
#include "program/kernel_abi.hpp"

namespace gex::kernels {

using problems::SortProblem;
namespace sort_dims = problems::sort_dims;

Dim sort_scratch_bytes(const SortProblem& problem, Dim length);
program::Callable make_sort(const SortProblem& problem);

}  // namespace gex::kernels
