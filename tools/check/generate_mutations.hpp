#pragma once
// Random programs that write their inputs: copies, swaps, partial writes, control flow. They test
// that memory is read before it is overwritten.

#include <cstdint>
#include <memory>

#include "ir/graph.hpp"

namespace gex::check {

std::unique_ptr<Graph> random_mutations(std::uint64_t seed, int statements);

}  // namespace gex::check
