#pragma once
// Helpers for ATen rows: operands with PyTorch's type promotion, axes, scalars.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "ops/core/define.hpp"
#include "ops/rows/aten.hpp"

namespace gex::ops {

// Argument i as a tensor of this dtype: a tensor is cast, a number becomes a 0-d constant, a
// symbolic integer a 0-d `dim`.
Value* operand(AtenCall& call, std::size_t i, DType dtype);
// Argument i as it is, or cast to the dtype the result promises.
Value* tensor_as(AtenCall& call, std::size_t i, DType dtype);

// PyTorch's result type of these arguments (tensors, 0-d tensors and numbers count differently).
DType promoted_type(const AtenCall& call, std::initializer_list<std::size_t> args);
// What the arithmetic of a call is done in: the result's dtype if every operand has it already,
// else its compute type, since eager PyTorch keeps scalars unrounded inside f16 and bf16 kernels.
DType arithmetic_type(const AtenCall& call, std::initializer_list<std::size_t> args);

// The usual imports of elementwise families.
AtenImport import_unary(std::string op_name);
AtenImport import_binary(std::string op_name);
AtenImport import_comparison(std::string op_name);

std::int64_t normal_axis(std::int64_t axis, int rank);
// int[] argument as ascending non-negative axes; absent or empty means all.
Ints axes_argument(const AtenCall& call, std::size_t i, int rank);

// Whether result k must be there: an output_mask asks for it, or PyTorch promises it all the same.
bool asked_for(const AtenCall& call, std::size_t mask, std::size_t k);

// The largest number that is not infinity.
double largest_finite(DType dtype);

// The value cast to what PyTorch promises for result k.
Value* to_result(AtenCall& call, Value* value, std::size_t k = 0);
std::vector<Value*> one(Value* value);

}  // namespace gex::ops
