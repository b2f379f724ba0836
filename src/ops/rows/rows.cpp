#include "ops/rows/rows.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "ops/core/build.hpp"

namespace gex::ops {

namespace {

// PyTorch's combine_categories: a lower-priority operand only counts if its category is higher.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower) return higher;
  if (is_float(*higher)) return higher;
  if (*higher == DType::boolean || is_float(*lower)) return promote(*higher, *lower);
  return higher;
}

std::optional<DType> merged(std::optional<DType> a, DType b) { return a ? promote(*a, b) : b; }

}  // namespace

Value* operand(AtenCall& call, std::size_t i, DType dtype) {
  const AtenArg& arg = call.arg(i);
  if (arg.is_tensor()) return cast(call.graph(), call.tensor(i), dtype);
  if (const Dim* d = std::get_if<Dim>(&arg.v)) {
    if (auto value = d->as_const()) return scalar_int(call.graph(), dtype, *value);
    return cast(call.graph(), dim_value(call.graph(), *d), dtype);
  }
  return scalar(call.graph(), dtype, call.number(i));
}

Value* tensor_as(AtenCall& call, std::size_t i, DType dtype) {
  return cast(call.graph(), call.tensor(i), dtype);
}

DType promoted_type(const AtenCall& call, std::initializer_list<std::size_t> args) {
  std::optional<DType> with_dims, zero_dims, numbers;
  for (std::size_t i : args) {
    const AtenArg& arg = call.arg(i);
    if (arg.is_tensor()) {
      const Type& type = call.tensor(i)->type();
      auto& slot = type.rank() > 0 ? with_dims : zero_dims;
      slot = merged(slot, type.dtype);
    } else if (std::holds_alternative<bool>(arg.v)) {
      numbers = merged(numbers, DType::boolean);
    } else if (std::holds_alternative<Dim>(arg.v)) {
      numbers = merged(numbers, DType::i64);
    } else {
      numbers = merged(numbers, DType::f32);
    }
  }
  return *combine(with_dims, combine(zero_dims, numbers));
}

DType arithmetic_type(const AtenCall& call, std::initializer_list<std::size_t> args) {
  const DType result = call.result().dtype;
  for (std::size_t i : args) {
    if (!call.arg(i).is_tensor() || call.tensor(i)->type().dtype != result) {
      return compute_type(result);
    }
  }
  return result;
}

AtenImport import_unary(std::string op_name) {
  return [op_name](AtenCall& c) {
    // Integers are promoted before the function is applied: torch.sin(i64) is f32.
    Value* x = operand(c, 0, c.result().dtype);
    return one(apply(c.graph(), op_name, {x}));
  };
}

AtenImport import_binary(std::string op_name) {
  return [op_name](AtenCall& c) {
    const DType t = arithmetic_type(c, {0, 1});
    return one(to_result(c, apply(c.graph(), op_name, {operand(c, 0, t), operand(c, 1, t)})));
  };
}

AtenImport import_comparison(std::string op_name) {
  return [op_name](AtenCall& c) {
    // A scalar compared with f16 or bf16 is first rounded to that dtype, as in eager.
    const DType t = promoted_type(c, {0, 1});
    return one(apply(c.graph(), op_name, {operand(c, 0, t), operand(c, 1, t)}));
  };
}

std::int64_t normal_axis(std::int64_t axis, int rank) {
  const std::int64_t size = std::max(rank, 1);
  if (axis < -size || axis >= size) {
    fail(ErrorCode::invalid_argument, "axis ", axis, " is out of range for ", rank, " axes");
  }
  return axis < 0 ? axis + size : axis;
}

Ints axes_argument(const AtenCall& call, std::size_t i, int rank) {
  Ints axes;
  if (!call.none(i)) axes = call.integers(i);
  if (rank == 0) return {};
  if (axes.empty()) return all_axes(rank);
  for (auto& axis : axes) axis = normal_axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

bool asked_for(const AtenCall& call, std::size_t mask, std::size_t k) {
  const auto& list = std::get<std::vector<AtenArg>>(call.arg(mask).v);
  return std::get<bool>(list.at(k).v) || !call.result(k).is_token();
}

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::max();
    case DType::f32:
      return std::numeric_limits<float>::max();
    case DType::bf16:
      return 0x1.FEp127;
    default:
      return 65504;
  }
}

Value* to_result(AtenCall& call, Value* value, std::size_t k) {
  return cast(call.graph(), value, call.result(k).dtype);
}

std::vector<Value*> one(Value* value) { return {value}; }

}  // namespace gex::ops
