#pragma once
// Which sizes of a matmul change from call to call.

#include <span>

#include "base/dim/dim.hpp"
#include "problems/matmul.hpp"

namespace gex::problems {

// Whether nothing but the number of rows of a plain left operand changes. Extra rows do not change
// the other rows, so such a matmul can be computed at an upper bound of its rows; other sizes are
// summed over or are strides.
inline bool only_rows_vary(std::span<const Dim> dims) {
  namespace at = matmul_dims;
  const bool one_product = dims[at::batch0] == Dim(1) && dims[at::batch1] == Dim(1);
  const bool rows_may = one_product && dims[at::a_strides + 3] == Dim(1);
  for (int i = 0; i < at::count; ++i) {
    const bool batch_stride = i >= at::a_strides && (i - at::a_strides) % 4 < 2;
    const bool may = (i == at::m && rows_may) || (batch_stride && one_product);
    if (!may && !dims[static_cast<std::size_t>(i)].is_const()) return false;
  }
  return true;
}

}  // namespace gex::problems
