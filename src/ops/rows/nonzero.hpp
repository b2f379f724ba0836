#pragma once
// Elements that a mask selects; their number is known only at run time. Registered by the rows of
// indexing.

#include "ops/rows/aten.hpp"

namespace gex::ops {

// Positions of true elements in order: i64[count]. Binds `count`, a symbol without a value so far.
Value* true_places(Graph& g, Value* mask, Dim count);
// `count` is the size in the trace. If it is not a new symbol, a check of the size is added to the
// call.
Value* true_places(AtenCall& call, Value* mask, Dim count);

// x[mask]: what the mask selects of the first axes of x, [count, rest of x...]. Null if the call's
// result does not have that form.
Value* selected_by_mask(AtenCall& call, Value* x, Value* mask);

void register_nonzero_rows();

}  // namespace gex::ops
