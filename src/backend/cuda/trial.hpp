#pragma once
// A problem of known sizes as it is measured: alone, without attached kernels.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "problems/problem.hpp"

namespace gex::backend::cuda {

struct ProblemTrial {
  problems::Problem problem;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> buffer_bytes;  // operands and result
};

// `has_epilogue`: the result is then written densely. Nothing for problems that are not measured,
// negative strides, and results without elements.
std::optional<ProblemTrial> trial_of(const problems::Problem& problem,
                                     std::span<const std::int64_t> dims, bool has_epilogue);

}  // namespace gex::backend::cuda
