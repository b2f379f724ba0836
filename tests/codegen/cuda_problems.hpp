#pragma once
// Problems whose CUDA kernels are tested, with random operands and what they should compute.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/kernel_text.hpp"
#include "base/tensor.hpp"
#include "problems/problem.hpp"

namespace gex::codegen {

struct ProblemCase {
  std::string name;
  problems::Problem problem;
  std::vector<std::int64_t> dims;   // of the problem, then of the attached kernels
  std::vector<HostTensor> buffers;  // of the launch, without a workspace; flat
  std::vector<bool> written;        // results
  bool constant_dims = true;        // the sizes are known when the text is written
  double tolerance = 1e-5;          // |a - b| / max(|b|, 1), besides the rounding of the results

  std::shared_ptr<loop::Kernel> epilogue;
  int extra_buffers = 0;
  int epilogue_dims_begin = 0;
  struct Prologue {
    std::shared_ptr<loop::Kernel> kernel;
    int operand, first_buffer, input_buffers, dims_begin;
  };
  std::vector<Prologue> prologues;

  backend::cuda::AttachedKernels attached() const;
  std::vector<Dim> dim_values() const;  // constants, or symbols d0, d1, ... for sizes above 1
  std::int64_t evaluate(Dim dim) const;
};

// Every dtype, layout and option at sizes that leave partial tiles.
std::vector<ProblemCase> problem_cases();

// The buffers after the launch, computed by plain loops in double precision.
std::vector<HostTensor> expected(const ProblemCase& c);

}  // namespace gex::codegen
