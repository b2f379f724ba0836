#pragma once
// Random valid graphs, deterministic by seed. Every op with a sample takes part, with results of
// other ops, new inputs and constants as operands; sizes are symbols or numbers.

#include <cstdint>
#include <memory>

#include "ir/graph.hpp"

namespace gex::check {

struct GenerateOptions {
  int nodes = 12;  // growth steps; a step may add several nodes
};

std::unique_ptr<Graph> random_graph(std::uint64_t seed, const GenerateOptions& options = {});

}  // namespace gex::check
