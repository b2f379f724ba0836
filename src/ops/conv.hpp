#pragma once
// Shared by the files of the convolution family. Weights are [O, C/groups, taps...] everywhere; a
// transposed convolution is the gradient of the plain one with respect to its input, so it reads
// the same weights.

#include <cstdint>
#include <tuple>

#include "ops/core/define.hpp"

namespace gex::ops {

// conv_transpose2d, conv_transpose3d: `size` is that of the result, on its spatial axes.
struct ConvTranspose {
  Ints stride{1, 1};
  Ints padding{0, 0};
  Ints dilation{1, 1};
  std::int64_t groups = 1;
  Dims size;
  bool wide = false;
  static constexpr auto fields() {
    return std::tuple{
        field("stride", &ConvTranspose::stride),     field("padding", &ConvTranspose::padding),
        field("dilation", &ConvTranspose::dilation), field("groups", &ConvTranspose::groups),
        field("size", &ConvTranspose::size),         field("wide", &ConvTranspose::wide)};
  }
};

// conv2d_weight_grad: `kernel` is the size of the weights on their spatial axes.
struct ConvWeightGrad {
  Ints stride{1, 1};
  Ints padding{0, 0};
  Ints dilation{1, 1};
  std::int64_t groups = 1;
  Dims kernel;
  static constexpr auto fields() {
    return std::tuple{
        field("stride", &ConvWeightGrad::stride), field("padding", &ConvWeightGrad::padding),
        field("dilation", &ConvWeightGrad::dilation), field("groups", &ConvWeightGrad::groups),
        field("kernel", &ConvWeightGrad::kernel)};
  }
};

Dim conv_output_size(Dim size, Dim taps, std::int64_t stride, std::int64_t padding,
                     std::int64_t dilation);

// Checks two floating-point operands of one dtype with `axes` spatial axes; attributes with a valid
// entry for each axis, and at least one group.
void require_convolution(const InferContext& c, std::size_t axes, const Ints& stride,
                         const Ints& padding, const Ints& dilation, std::int64_t groups);

Value* conv_transpose2d(Graph& g, Value* x, Value* weight, const ConvTranspose& attrs);
Value* conv2d_weight_grad(Graph& g, Value* x, Value* grad, const ConvWeightGrad& attrs);
// The weights' gradient of a convolution over three spatial axes.
Value* conv3d_weight_grad(Graph& g, Value* x, Value* grad, const ConvWeightGrad& attrs);

// x with step-1 zeros between neighbouring elements of an axis.
Value* spread_with_zeros(Graph& g, Value* x, std::int64_t axis, std::int64_t step);

}  // namespace gex::ops
