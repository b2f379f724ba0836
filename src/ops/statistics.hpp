#pragma once
// Building blocks of normalisations and their gradients.

#include "ops/core/attributes.hpp"

namespace gex {
class Graph;
class Value;
}  // namespace gex

namespace gex::ops {

Ints last_axes(int rank, std::size_t count);
// x in its compute type.
Value* wide(Graph& g, Value* x);
// The number of elements along the axes, as a 0-d tensor.
Value* element_count(Graph& g, DType dtype, const Shape& shape, const Ints& axes);

struct Moments {
  Value* mean;
  Value* variance;
};
// In two passes (mean, then squared distances); the axes stay as unit axes.
Moments moments(Graph& g, Value* x, const Ints& axes, double correction);
// A vector with an element for each channel, shaped to broadcast along axis 1 of `rank` axes.
Value* along_channels(Graph& g, Value* per_channel, int rank);

}  // namespace gex::ops
