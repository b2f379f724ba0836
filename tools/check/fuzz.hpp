#pragma once
// One random graph in every way it can run.

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

// The first trial of this seed's graph that goes wrong. `about_to` is told each trial beforehand.
// Every level runs with interpreted kernels, one of them, picked by the seed, also with generated
// code and one without fusion.
std::optional<Failure> fuzz_one(std::uint64_t seed,
                                const std::function<void(const Trial&)>& about_to = {});

// The text of the smallest graph that still fails the trial that `failure.where` names; each
// candidate runs in a process of its own.
std::string reduced_failure(std::uint64_t seed, const Failure& failure);

}  // namespace gex::check
