#pragma once
// The three forms of a convolution (forward, gradient of the weights, gradient of the input) as
// matmuls whose right operand is gathered from an image. Included by the files that write their
// kernels: on tensor cores, by tiles in shared memory, and directly.

#include <cstdint>
#include <string_view>

#include "backend/cuda/problem_text.hpp"

namespace gex::backend::cuda {

enum class ConvForm { forward, weight_grad, input_grad };

struct Conv {
  ConvForm form;
  const problems::Conv2dProblem& problem;
  std::span<const Dim> dims;
  DType image, weights, result;  // of the gathered, the other operand, and the result
  Dim rows, cols, depth;         // of the matmul of one group

  bool constant() const { return rows.is_const() && cols.is_const() && depth.is_const(); }
};

// `struct Sizes`, and `struct Task`: the operands of the matmul by (row, depth) and (depth,
// column), and where its results go. Needs Image, Weights, Finish and the constants kStepY, kPadY,
// kDilationY, kUpY, the same for X, and kGroups.
std::string_view conv_sizes_text();
std::string_view conv_task_text(ConvForm form);

// One thread for each result, for groups with few output channels: conv_direct(task, block). For
// the gradient of the weights, one block. `Index`: the type of positions.
std::string_view conv_direct_text(ConvForm form);

}  // namespace gex::backend::cuda
