#pragma once
// Matmuls with weights that are dequantised on the way become products with the quantised weights:
//   x @ ((q - zero) * scale + offset), in any order of transposes and reshapes,
// where q are bytes or halves of bytes. Scales, zero points and offsets may vary along the outputs
// and from group to group of adjacent inputs. Weights that are stored in another order than the
// kernels read are rearranged once if they are frozen or constant, else left alone.

#include "passes/engine/pass.hpp"

namespace gex::passes {

Pass quantised_products();
// Only products of so few rows that reading the weights is their cost, for targets that have
// kernels for those alone.
Pass quantised_products_of_few_rows();
// Expands the others.
Pass expand_quantised_products();

}  // namespace gex::passes
