#pragma once
// Generated code around a contraction: a prologue computes an operand's elements where the kernel
// would read them, an epilogue takes finished accumulators before they reach memory.

#include <optional>
#include <utility>
#include <vector>

#include "problems/operands.hpp"
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

struct Prologue {
  // Elementwise over the linear index of the operand's own dense grid, called for segments of it.
  // Its buffers are [inputs..., elements], where elements[linear] is right for the range it is
  // called with (f32; f64 for an f64 problem). It gets no scratch.
  program::Callable fn;
  int operand = 0;       // whose strides in the launch's dims count elements of that grid
  int first_buffer = 0;  // its inputs in the launch's buffers
  int input_buffers = 0;
  int dims_begin = 0;  // its own dims in the launch's dims
};

struct Attached {
  std::optional<Epilogue> epilogue;
  std::vector<Prologue> prologues;  // one for each computed operand of the problem

  Attached() = default;
  Attached(std::nullopt_t) {}
  Attached(Epilogue only) : epilogue(std::move(only)) {}
};

using problems::contains;
using problems::OperandSet;

}  // namespace gex::kernels
