#pragma once
// The rules that turn ops of this folder into problems; each is in a file named after the problem.

#include "ops/core/problem_rule.hpp"

namespace gex::ops {

ProblemRule matmul_rule();
ProblemRule conv2d_rule();
ProblemRule conv2d_transposed_rule();
ProblemRule conv2d_weight_grad_rule();
ProblemRule conv2d_input_grad_rule();
ProblemRule integer_matmul_rule();
ProblemRule integer_conv2d_rule();
ProblemRule attention_rule();
ProblemRule sort_rule();
ProblemRule topk_rule();
ProblemRule grouped_matmul_rule();
ProblemRule grouped_weight_grad_rule();

// How often something is read that is needed once per `block` of `size`.
std::int64_t reads_of(Dim size, std::int64_t block);

}  // namespace gex::ops
