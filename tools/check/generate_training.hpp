#pragma once
// Random training steps: layers forward, gradients backward over saved values, parameters updated
// in place. They have long lifetimes, sums over rows, transposed matmuls and many results, which
// graphs grown op by op seldom have.

#include <cstdint>
#include <memory>

#include "ir/graph.hpp"

namespace gex::check {

// Deterministic by seed.
std::unique_ptr<Graph> random_training_step(std::uint64_t seed, int layers);

}  // namespace gex::check
