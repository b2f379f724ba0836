#pragma once
// Proofs that launches of the hand-written kernels stay inside their buffers: operands of the sizes
// and strides that a launch gives, results, scratch, and the loop kernels around a product.

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

// A sentence for each thing that may be wrong.
std::vector<std::string> unproven_problem(const program::Program& program,
                                          const ProblemLaunch& launch);

}  // namespace gex
