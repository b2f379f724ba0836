#pragma once
// Graphs of the samples, and inputs for them.

#include <memory>

#include "samples.hpp"

namespace gex::test {

// Ops with a body or an expansion.
std::vector<const OpDef*> computed_ops();

// The sample's graph, or nothing if the op does not accept the dtype. Its first input defines s.
std::unique_ptr<Graph> graph_of(const OpDef& op, DType dtype);
Tensors inputs_of(const OpDef& op, DType dtype, std::int64_t size);

// The same with s as a number. UserError if the shape rule rejects that size.
std::unique_ptr<Graph> with_size(const Graph& graph, std::int64_t size);
// The same reading every input through a transpose; `inputs` are transposed along.
std::unique_ptr<Graph> with_transposed_inputs(const Graph& graph, Tensors& inputs);

}  // namespace gex::test
