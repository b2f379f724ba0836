#pragma once
// Finds the fastest candidate for a matmul or a convolution of given sizes on this machine:
// measured once, cached in memory and in the Store.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cpu/kernels/tuning_candidates.hpp"
#include "cache/store.hpp"

namespace gex::backend::cpu {

// A form and a vector width, and the processor time that it takes on one thread.
struct TimedCandidate {
  std::string name;
  double microseconds;
};

// The candidates for a problem of these sizes, measured now: the heuristic's choice first. Empty
// if there is no choice, or memory is short.
std::vector<TimedCandidate> timed_candidates(const problems::Problem& problem,
                                             std::span<const std::int64_t> dims);

class Tuner {
 public:
  // `target`: the machine that the measurements are for. The store may be null.
  Tuner(std::shared_ptr<Store> store, std::string target)
      : store_(std::move(store)), target_(std::move(target)) {}

  // The heuristic's choice if there are no alternatives, nothing is faster, or memory is short.
  kernels::TuningCandidate best(const kernels::Problem& problem,
                                std::span<const std::int64_t> dims);

  // One line per measured or cached problem, in order.
  std::vector<std::string> findings() const;

 private:
  const std::shared_ptr<Store> store_;
  const std::string target_;
  mutable std::mutex mutex_;  // guards the following fields
  std::unordered_map<std::string, kernels::TuningCandidate> known_;
  std::vector<std::string> findings_;
};

}  // namespace gex::backend::cpu
