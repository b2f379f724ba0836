#pragma once
// Random training steps: layers forward, their gradients backward over the values that were kept,
// parameters written in place. Long lives, sums over rows, transposed products, many results: what
// graphs grown op by op seldom have.

#include <cstdint>
#include <memory>

#include "ir/graph.hpp"

namespace gex::check {

// The same graph for the same seed.
std::unique_ptr<Graph> random_training_step(std::uint64_t seed, int layers);

}  // namespace gex::check
