#pragma once
// Proofs that launches of problems stay inside their buffers: operands with the sizes and strides
// of the launch, results, scratch, and attached kernels.

#include <string>
#include <vector>

#include "loop/kernel.hpp"
#include "problems/problem.hpp"
#include "program/program.hpp"

namespace gex {

struct ProblemLaunch {
  const program::Launch* launch = nullptr;
  const problems::Problem* problem = nullptr;
  const loop::Kernel* epilogue = nullptr;  // null: none
  int extra_buffers = 0;                   // of the epilogue
  struct Prologue {
    const loop::Kernel* kernel = nullptr;
    int operand = 0, first_buffer = 0, input_buffers = 0, dims_begin = 0;
  };
  std::vector<Prologue> prologues;
};

// Returns a sentence for each possible error.
std::vector<std::string> unproven_problem(const program::Program& program,
                                          const ProblemLaunch& launch);

}  // namespace gex
