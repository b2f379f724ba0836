#pragma once
// Which sizes of a product change from call to call.

#include <span>

#include "base/dim/dim.hpp"
#include "problems/matmul.hpp"

namespace gex::problems {

// Whether nothing but the number of rows of a plain left operand changes. Computing more rows than
// there are changes no other row, so such a product can be computed at an upper size; all else is
// summed over, or a stride.
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
