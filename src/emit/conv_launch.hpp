#pragma once
// What launches of a convolution and of its two gradients have in common.

#include <vector>

#include "base/error.hpp"
#include "ir/type.hpp"
#include "problems/conv2d.hpp"

namespace gex::emit {

// How one of its three tensors lies in memory.
struct ConvOperand {
  const Shape& shape;
  const std::vector<Dim>& strides;
};

// `attrs`: of any of the three ops. x, w, y: dtypes as the kernel's problem has them.
template <class Attributes>
problems::Conv2dProblem conv_problem(const Attributes& attrs, DType x, DType w, DType y) {
  problems::Conv2dProblem problem;
  problem.x = x;
  problem.w = w;
  problem.y = y;
  for (std::size_t k = 0; k < 2; ++k) {
    problem.stride[k] = attrs.stride[k];
    problem.dilation[k] = attrs.dilation[k];
    problem.pad[k] = attrs.padding[k];
  }
  problem.groups = attrs.groups;
  return problem;
}

// Laid out as problems::conv2d_dims says.
inline std::vector<Dim> conv_dims(const ConvOperand& x, const ConvOperand& w,
                                  const ConvOperand& y) {
  std::vector<Dim> dims = x.shape;
  dims.insert(dims.end(), y.shape.begin() + 1, y.shape.end());
  dims.insert(dims.end(), w.shape.begin() + 2, w.shape.end());
  for (const std::vector<Dim>* strides : {&x.strides, &w.strides, &y.strides})
    dims.insert(dims.end(), strides->begin(), strides->end());
  GEX_CHECK(dims.size() == problems::conv2d_dims::count, "dims of a convolution");
  return dims;
}

}  // namespace gex::emit
