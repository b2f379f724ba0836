#pragma once
// Random programs that change their inputs: copies, swaps, writes into parts, control flow. What
// such graphs test is which memory is read before it is overwritten.

#include <cstdint>
#include <memory>

#include "ir/graph.hpp"

namespace gex::check {

std::unique_ptr<Graph> random_mutations(std::uint64_t seed, int statements);

}  // namespace gex::check
