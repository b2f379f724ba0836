#pragma once
// Several ways to compute one problem: in which form, and with which vectors. Which is the fastest
// depends on sizes, strides and machine; `backend/cpu/tuner.hpp` measures.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/kernels/form.hpp"
#include "backend/cpu/kernels/make.hpp"

namespace gex::kernels {

// "in_place avx512".
std::string name_of(const TuningCandidate& way);

// Those that can compute the problem with these sizes, first the one that its rule takes. None
// where there is nothing to choose: other kinds of problems, or rows must not depend on their
// number.
std::vector<TuningCandidate> tuning_candidates(const Problem& problem,
                                               std::span<const std::int64_t> dims);
// One of them by its name; nothing if there is no such way here.
std::optional<TuningCandidate> find_candidate(const std::vector<TuningCandidate>& ways,
                                              std::string_view name);

// A launch of a problem that has ways, without an epilogue: the result is stored as it is summed.
struct Trial {
  Problem problem;
  std::vector<std::int64_t> dims;          // where those of an epilogue are left out
  std::vector<std::int64_t> buffer_bytes;  // two operands and the result
  std::int64_t grid = 0, scratch_bytes = 0;
  double work = 0;  // multiplications
};
// Nothing where strides are negative.
std::optional<Trial> trial_of(const Problem& problem, std::span<const std::int64_t> dims);

}  // namespace gex::kernels
