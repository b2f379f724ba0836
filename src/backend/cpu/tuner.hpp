#pragma once
// Which way of computing a product or a convolution is the fastest for given sizes on this machine:
// measured once, remembered, and kept in the Store for other processes.

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

class Tuner {
 public:
  // `target`: the machine whose measurements these are. The store may be null.
  Tuner(std::shared_ptr<Store> store, std::string target)
      : store_(std::move(store)), target_(std::move(target)) {}

  // The way by rule where there is nothing to choose, nothing faster, or no memory for trying.
  kernels::TuningCandidate best(const kernels::Problem& problem,
                                std::span<const std::int64_t> dims);

  // A line for each problem that was measured or remembered, in order.
  std::vector<std::string> findings() const;

 private:
  struct Timed {
    kernels::TuningCandidate way;
    double microseconds;
  };
  std::vector<Timed> measure(const kernels::Trial& trial,
                             const std::vector<kernels::TuningCandidate>& ways) const;

  const std::shared_ptr<Store> store_;
  const std::string target_;
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<std::string, kernels::TuningCandidate> known_;
  std::vector<std::string> findings_;
};

}  // namespace gex::backend::cpu
