#pragma once
// The smallest graph for which something still holds: delta debugging over outputs, nodes, ties,
// sizes and attributes. Values that are cut off become inputs, so every candidate is a valid graph;
// where that would leave a size that no input tells, they stay.

#include <cstdint>
#include <functional>
#include <memory>

#include "ir/graph.hpp"

namespace gex::check {

struct ReduceOptions {
  std::int64_t most_tests = 2000;
  // Told of every smaller graph that still holds.
  std::function<void(const Graph&)> progress;
};

// `holds` is asked about verified graphs only; it must hold for `graph` itself.
std::unique_ptr<Graph> reduce(const Graph& graph, const std::function<bool(const Graph&)>& holds,
                              const ReduceOptions& options = {});

}  // namespace gex::check
