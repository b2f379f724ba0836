#pragma once
// Products of quantised tensors as products of 8-bit integers. A zero point is an i32 value, or
// null for 0: sums of rows and columns correct the product of the numbers as they are stored.

#include "ir/graph.hpp"
#include "ops/core/attributes.hpp"

namespace gex::ops {

// integer_conv2d. `low` and `high`: pixels around the image, whose value is `border`.
struct IntegerConv {
  Ints stride{1, 1};
  Ints dilation{1, 1};
  Ints low{0, 0};
  Ints high{0, 0};
  std::int64_t border = 0;
  std::int64_t groups = 1;
  static constexpr auto fields() {
    return std::tuple{
        field("stride", &IntegerConv::stride), field("dilation", &IntegerConv::dilation),
        field("low", &IntegerConv::low),       field("high", &IntegerConv::high),
        field("border", &IntegerConv::border), field("groups", &IntegerConv::groups)};
  }
};

// integer_matmul and integer_conv2d, which have kernels on the CPU alone: other targets run their
// expansions.
void register_integer_products();
inline bool is_integer_product(const Node& node) {
  return node.is("integer_matmul") || node.is("integer_conv2d");
}

inline bool is_byte(DType dtype) { return dtype == DType::i8 || dtype == DType::u8; }

// The product of a - a_zero [..., m, k] and b - b_zero [..., k, n] in i32. a_zero is a number or
// [m, 1], b_zero a number or [n].
Value* centred_product(Graph& g, Value* a, Value* a_zero, Value* b, Value* b_zero);

// The convolution of x - x_zero with weights in i32. attrs.border is x_zero, so that the border of
// the image counts as 0. If the zero point is known at run time alone, it is `zero`, an i32 number,
// and the border belongs to x already. `weight_zero`: i32, a number or one for each output channel.
Value* centred_convolution(Graph& g, Value* x, Value* weight, const IntegerConv& attrs,
                           Value* zero = nullptr, Value* weight_zero = nullptr);

// Unsigned bytes minus 128 as signed ones: weights whose zero point is 128.
Value* minus_128(Graph& g, Value* x);

}  // namespace gex::ops
