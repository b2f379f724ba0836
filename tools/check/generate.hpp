#pragma once
// Random valid graphs: the same one for the same seed. Every op that has a sample takes part, with
// operands that are results of other ops, fresh inputs and constants; sizes are symbols or numbers.

#include <cstdint>
#include <memory>

#include "ir/graph.hpp"

namespace gex::check {

struct GenerateOptions {
  int nodes = 12;  // steps of growth; a step may add several nodes
};

std::unique_ptr<Graph> random_graph(std::uint64_t seed, const GenerateOptions& options = {});

}  // namespace gex::check
