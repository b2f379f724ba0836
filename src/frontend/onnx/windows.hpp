#pragma once
// Windows of convolutions and pools: kernel, strides, dilations and pads for each spatial axis.

#include "frontend/onnx/row.hpp"

namespace gex::onnx {

struct WindowSpec {
  Ints kernel, stride, dilation;
  Dims low, high;  // pads
  Dims windows;    // number of windows on each axis
  // Elements after the pads that the last windows of a ceil_mode pool cover.
  Dims beyond;
};

// The spatial sizes of weights, which must be known.
Ints kernel_of(const Row& r, const Value* weight);
// `sizes`: of the spatial axes of x.
WindowSpec window_spec(const Row& r, const Ints& kernel, const Shape& sizes, bool ceil);
// Spatial pads as pads of the whole tensor: none on the first two axes.
Dims for_all_axes(const Dims& spatial);
Shape spatial_of(const Value* x);

Value* convolve(const Row& r, Value* x, Value* weight, const WindowSpec& spec, std::int64_t groups);

// Conv with its bias, and AveragePool in x's floats.
Value* convolution_with_bias(Row& r);
Value* averages_of_windows(Row& r, Value* x);

}  // namespace gex::onnx
