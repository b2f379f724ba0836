#pragma once
// sort and topk in n log n steps; their expansions compare every pair. NaN is larger than every
// number.

#include <vector>

#include "base/eager_order.hpp"
#include "base/tensor.hpp"

namespace gex::interp {

// The first `length` elements of each row along `axis`, and where they were, as i64.
std::vector<HostTensor> sorted_along(const HostTensor& x, std::int64_t axis, std::int64_t length,
                                     bool descending, Ties ties);

}  // namespace gex::interp
