#pragma once
// The ways to compute a problem whose sizes are known: which one is the fastest is estimated by a
// cost model, or measured (tuner.hpp).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dim/dim.hpp"
#include "problems/problem.hpp"

namespace gex::backend::cuda {

struct DeviceLimits;

struct Form {
  int rows = 0, cols = 0;   // of a block's tile; rows of 0: a product of few rows, without tiles
  int split = 1;            // blocks that share the depth of a tile, or the keys of attention
  int slice = 0;            // attention: elements of a head for each block
  double microseconds = 0;  // by the cost model
  bool same_as(const Form& other) const {
    return rows == other.rows && cols == other.cols && split == other.split && slice == other.slice;
  }
};
// "64x128", "64x128 by 4 blocks", "slices of 16".
std::string name_of(const Form& form);

// Those that can compute the problem, the cost model's choice first. Fewer than two: there is no
// choice, but between one and the library.
// `dims`: of the problem, constants.
std::vector<Form> forms_of(const problems::Problem& problem, std::span<const Dim> dims,
                           const DeviceLimits& limits);

// By kind of problem. `rule` is the cost model's choice; of the others, those that are expected to
// take much longer are left out.
std::vector<Form> worth_trying(const Form& rule, std::vector<Form> others);
std::vector<Form> matmul_forms(const problems::MatmulProblem& problem, std::span<const Dim> dims,
                               const DeviceLimits& limits);
std::vector<Form> conv2d_forms(const problems::Conv2dProblem& problem, std::span<const Dim> dims,
                               const DeviceLimits& limits);
std::vector<Form> conv2d_forms(const problems::Conv2dWeightGradProblem& problem,
                               std::span<const Dim> dims, const DeviceLimits& limits);
std::vector<Form> conv2d_forms(const problems::Conv2dInputGradProblem& problem,
                               std::span<const Dim> dims, const DeviceLimits& limits);
std::vector<Form> attention_forms(const problems::AttentionProblem& problem,
                                  std::span<const Dim> dims, const DeviceLimits& limits);

// Cycles in which a multiprocessor does what takes a microsecond: for estimates alone.
inline constexpr double kCyclesPerMicrosecond = 1700;

}  // namespace gex::backend::cuda
