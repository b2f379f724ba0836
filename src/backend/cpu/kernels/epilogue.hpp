#pragma once
// Generated code attached to a contraction: a prologue computes elements of an operand when the
// kernel would read them, an epilogue processes finished accumulators before they are stored.

#include <optional>
#include <utility>
#include <vector>

#include "problems/operands.hpp"
#include "program/kernel_abi.hpp"

namespace gex::kernels {

struct Epilogue {
  // Elementwise over the linear index of the dense row-major output grid. Its buffers are
  // [accumulators, extra...]; accumulators[linear] is valid for the range of the call (f32; f64 for
  // an f64 problem). Its scratch follows the kernel's own: a launch requests the sum of both.
  program::Callable fn;
  int extra_buffers = 0;  // the launch's buffers after the operands, in order
  int dims_begin = 0;     // the epilogue's own dims in the launch's dims
  int dims_count = 0;
};

struct Prologue {
  // Elementwise over the linear index of the operand's own dense grid, called for segments of it.
  // Its buffers are [inputs..., elements]; elements[linear] is written for the range of the call
  // (f32; f64 for an f64 problem). It gets no scratch.
  program::Callable fn;
  int operand = 0;       // its strides in the launch's dims count elements of that grid
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
