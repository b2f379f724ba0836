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
// Argument i unchanged, or cast to the dtype of the fake result.
Value* tensor_as(AtenCall& call, std::size_t i, DType dtype);

// PyTorch's result type of these arguments (tensors, 0-d tensors and numbers count differently).
DType promoted_type(const AtenCall& call, std::initializer_list<std::size_t> args);
// The dtype of a call's arithmetic: the result's dtype if every operand already has it, else its
// compute type, since eager PyTorch keeps scalars unrounded inside f16 and bf16 kernels.
DType arithmetic_type(const AtenCall& call, std::initializer_list<std::size_t> args);

// The default imports of elementwise families.
AtenImport import_unary(std::string op_name);
AtenImport import_binary(std::string op_name);
AtenImport import_comparison(std::string op_name);

std::int64_t normal_axis(std::int64_t axis, int rank);
// int[] argument as ascending non-negative axes; absent or empty means all.
Ints axes_argument(const AtenCall& call, std::size_t i, int rank);

// Whether result k is needed: an output_mask requests it, or PyTorch returns it anyway.
bool asked_for(const AtenCall& call, std::size_t mask, std::size_t k);

// The largest finite number.
double largest_finite(DType dtype);

// The value cast to the dtype of the fake result k.
Value* to_result(AtenCall& call, Value* value, std::size_t k = 0);
std::vector<Value*> one(Value* value);

}  // namespace gex::ops
