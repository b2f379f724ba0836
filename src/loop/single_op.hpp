#pragma once
// A kernel for a single node, generated from its op's body: run by the interpreter, and the
// starting point of fusion.

#include "ir/graph.hpp"
#include "loop/kernel.hpp"

namespace gex::loop {

// Parameters: the present inputs in order (with their types' strides), then the outputs.
// Maps: the grid is the output's shape. Reductions: the grid is the kept axes. Scatters: one grid
// point that copies input 0, then stores the updates in order. UserError(unsupported) if the op has
// no body.
Kernel kernel_of(const Node& node);

// A scatter that writes into its input: parameter 0 is `inout`, the other present inputs follow,
// there is no output. Axes of the updates that index the output directly form the grid (its points
// never write the same element); updates that may write the same element run in order inside one
// point.
Kernel kernel_of_scatter_inplace(const Node& node);

}  // namespace gex::loop
