#pragma once
// The reference executor behind the same interface as a Session.

#include <memory>
#include <span>

#include "frontend/python/runner.hpp"
#include "ir/graph.hpp"

namespace gex::python {

// `integers`: the integer arguments of a call.
std::unique_ptr<Engine> make_interp_engine(std::unique_ptr<Graph> graph,
                                           std::span<const Dim> integers);

}  // namespace gex::python
