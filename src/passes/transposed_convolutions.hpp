#pragma once
// Transposed convolutions with steps as one kernel, for targets that have it: with frozen weights,
// which are packed ahead of time, or with images that are large enough for packing them in each
// call. Others are expanded to convolutions of phases or to a product.

#include "passes/engine/pass.hpp"

namespace gex::passes {
Pass select_transposed_convolutions();
}
