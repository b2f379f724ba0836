#pragma once
// Matmuls and convolutions of dequantised tensors as products of their 8-bit integers, scaled
// afterwards: what a QDQ model means.

#include "passes/engine/pass.hpp"

namespace gex::passes {

bool integer_products(Graph& graph, PassContext& context);
// For targets without kernels for them.
bool expand_integer_products(Graph& graph, PassContext& context);

}  // namespace gex::passes
