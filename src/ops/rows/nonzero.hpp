#pragma once
// Elements that a mask selects: how many only a run can tell. The rows of indexing register these.

#include "ops/rows/aten.hpp"

namespace gex::ops {

// Where the mask is true, counted over its elements in order: i64[count]. A symbol for `count` gets
// its value here.
Value* true_places(Graph& g, Value* mask, Dim count);

// x[mask]: what the mask selects of the first axes of x, [count, rest of x...]. Null if the call's
// result is not of that form.
Value* selected_by_mask(AtenCall& call, Value* x, Value* mask);

void register_nonzero_rows();

}  // namespace gex::ops
