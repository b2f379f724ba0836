#pragma once
// Accumulators and combine bodies that several families use.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ops/core/define.hpp"

namespace gex::ops {

using CombineBody = std::function<std::vector<Scalar>(
    ScalarBuilder&, const Node&, std::span<const Scalar>, std::span<const Scalar>)>;

loop::Accumulator accumulator(std::string name, DType dtype, double init);
double lowest(DType dtype);   // -inf or the smallest integer
double highest(DType dtype);  // +inf or the largest integer

CombineBody combine_by(Prim prim);

// (value, index) with the better value; equal values keep the lower index; NaN wins.
std::vector<loop::Accumulator> arg_accumulators(DType dtype, double init);
CombineBody combine_arg(Prim better);

}  // namespace gex::ops
