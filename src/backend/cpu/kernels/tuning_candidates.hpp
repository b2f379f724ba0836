#pragma once
// Alternative implementations of one problem: forms and vector widths. Which is the fastest depends
// on sizes, strides and machine; `backend/cpu/tuner.hpp` measures it.

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
std::string name_of(const TuningCandidate& candidate);

// The candidates for the problem with these sizes, the heuristic's choice first. Empty if there is
// nothing to choose: other kinds of problems, or rows must not depend on their number.
std::vector<TuningCandidate> tuning_candidates(const Problem& problem,
                                               std::span<const std::int64_t> dims);
// What the heuristic chooses, by its form instead of as `by_rule`.
TuningCandidate choice_by_rule(const Problem& problem, std::span<const std::int64_t> dims);
// The candidate with this name; nothing if it is not available here.
std::optional<TuningCandidate> find_candidate(const std::vector<TuningCandidate>& candidates,
                                              std::string_view name);

// A launch of a tunable problem without its epilogue: the accumulators are stored.
struct Trial {
  Problem problem;
  std::vector<std::int64_t> dims;          // without those of an epilogue
  std::vector<std::int64_t> buffer_bytes;  // two operands and the result
  std::int64_t grid = 0, scratch_bytes = 0;
  double work = 0;  // multiplications
};
// Nothing if strides are negative.
std::optional<Trial> trial_of(const Problem& problem, std::span<const std::int64_t> dims);

}  // namespace gex::kernels
