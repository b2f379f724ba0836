#pragma once
// Any kernel of this folder as data: what it computes, written as one line that reads back to the
// same, so that a compiled program can be kept.

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "backend/cpu/kernels/attention.hpp"
#include "backend/cpu/kernels/conv2d.hpp"
#include "backend/cpu/kernels/grouped_matmul.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/sort.hpp"

namespace gex::kernels {

// The gradients of a convolution and of the weights of a grouped product: the same problem, read
// otherwise.
struct Conv2dWeightGradProblem {
  Conv2dProblem conv;
  bool operator==(const Conv2dWeightGradProblem&) const = default;
};

struct Conv2dInputGradProblem {
  Conv2dProblem conv;
  bool operator==(const Conv2dInputGradProblem&) const = default;
};

struct GroupedWeightGradProblem {
  GroupedMatmulProblem grouped;
  bool operator==(const GroupedWeightGradProblem&) const = default;
};

using Problem =
    std::variant<MatmulProblem, Conv2dProblem, Conv2dWeightGradProblem, Conv2dInputGradProblem,
                 AttentionProblem, SortProblem, GroupedMatmulProblem, GroupedWeightGradProblem>;

OperandSet computed_operands(const Problem& problem);
// How many dims a launch of a problem that takes attached code has: theirs follow.
int dims_count(const Problem& problem);

// `attached`: for products, convolutions and attention only. `way`: one of those that ways.hpp
// lists for the launch's sizes.
program::Callable make(const Problem& problem, const Attached& attached = {}, const Way& way = {});

// "matmul f32 f32 f32 packed 0": equal problems have equal texts.
std::string print(const Problem& problem);
Problem parse_problem(std::string_view text);  // UserError(parse_error)

}  // namespace gex::kernels
