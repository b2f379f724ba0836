#pragma once
// Delta debugging: finds the smallest graph for which a predicate still holds, over outputs, nodes,
// ties, sizes and attributes. Values that are cut off become inputs, so every candidate is a valid
// graph; values that define a size that no input has stay.

#include <cstdint>
#include <functional>
#include <memory>

#include "ir/graph.hpp"

namespace gex::check {

struct ReduceOptions {
  std::int64_t most_tests = 2000;
  // Called for every smaller graph for which the predicate holds.
  std::function<void(const Graph&)> progress;
};

// `holds` is called with verified graphs only; it must hold for `graph` itself.
std::unique_ptr<Graph> reduce(const Graph& graph, const std::function<bool(const Graph&)>& holds,
                              const ReduceOptions& options = {});

}  // namespace gex::check
