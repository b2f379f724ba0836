#pragma once
// Runs one random graph in all configurations.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "check/trial.hpp"

namespace gex::check {

struct Failure {
  Trial trial;
  std::string where;  // trial.text()
  std::string fault;
};

// The first failing trial of this seed's graph. `about_to` is called before each trial. Every level
// runs with interpreted kernels; one level, chosen by the seed, also runs with generated code and
// without fusion.
std::optional<Failure> fuzz_one(std::uint64_t seed,
                                const std::function<void(const Trial&)>& about_to = {});

// The text of the smallest graph that still fails the trial `failure.where`; each candidate runs in
// its own process.
std::string reduced_failure(std::uint64_t seed, const Failure& failure);

}  // namespace gex::check
