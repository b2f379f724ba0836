#pragma once
// Makes a CPU function for any problem.

#include "backend/cpu/kernels/epilogue.hpp"
#include "backend/cpu/kernels/form.hpp"
#include "problems/problem.hpp"
#include "program/kernel_abi.hpp"

namespace gex::kernels {

using problems::Problem;

// `attached`: only if takes_attached_kernels(problem). `candidate`: one of those that
// tuning_candidates.hpp lists for the launch's sizes.
program::Callable make(const Problem& problem, const Attached& attached = {},
                       const TuningCandidate& candidate = {});

}  // namespace gex::kernels
