#pragma once
// What happens to finished accumulators before they reach memory: a kernel over the dense output
// grid, called for segments of one row as soon as all of K has been summed.

#include "program/kernel_abi.hpp"

namespace gex::kernels {

struct Epilogue {
  // Elementwise over the linear index of the output grid, row-major and dense. Its buffers are
  // [accumulators, extra...], where accumulators[linear] is right for the range it is called with
  // (f32; f64 for an f64 problem). Its scratch lies after the kernel's own: a launch asks for the
  // sum of both.
  program::Callable fn;
  int extra_buffers = 0;  // the launch's buffers after the operands, in order
  int dims_begin = 0;     // the epilogue's own dims in the launch's dims
  int dims_count = 0;
};

}  // namespace gex::kernels
