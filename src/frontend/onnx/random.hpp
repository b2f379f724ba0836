#pragma once
#include "frontend/onnx/row.hpp"

namespace gex::onnx {

// i64[] key for the counter-based generator: from the node's seed if it has one, else new in each
// run.
Value* random_key(const Row& r);
void add_random_rows();

}  // namespace gex::onnx
