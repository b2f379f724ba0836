#pragma once
// Any problem as a value, and as one line of text that parses back to the same value.

#include <string>
#include <string_view>
#include <variant>

#include "problems/attention.hpp"
#include "problems/conv2d.hpp"
#include "problems/grouped_matmul.hpp"
#include "problems/matmul.hpp"
#include "problems/quantised_matmul.hpp"
#include "problems/sort.hpp"

namespace gex::problems {

using Problem =
    std::variant<MatmulProblem, Conv2dProblem, Conv2dWeightGradProblem, Conv2dInputGradProblem,
                 AttentionProblem, SortProblem, GroupedMatmulProblem, GroupedWeightGradProblem,
                 QuantisedMatmulProblem>;

OperandSet computed_operands(const Problem& problem);
// Whether its kernels take an epilogue and prologues.
bool takes_attached_kernels(const Problem& problem);
// How many dims a launch has before those of the attached kernels.
int dims_count(const Problem& problem);

// "matmul f32 f32 f32 0 0 0 0": equal problems have equal texts.
std::string print(const Problem& problem);
Problem parse_problem(std::string_view text);  // UserError(parse_error)

}  // namespace gex::problems
