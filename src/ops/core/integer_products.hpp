#pragma once
// Products of quantised tensors as products of 8-bit integers. A zero point is an i32 value, or
// null for 0: sums of rows and columns correct the product of the numbers as they are stored.

#include "ir/graph.hpp"
#include "ops/core/attributes.hpp"

namespace gex::ops {

// integer_conv2d
struct IntegerConv {
  Ints stride{1, 1};
  Ints dilation{1, 1};
  static constexpr auto fields() {
    return std::tuple{field("stride", &IntegerConv::stride),
                      field("dilation", &IntegerConv::dilation)};
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

// The convolution of x - x_zero with weights in i32, without groups. `padding` is of the attributes
// of a float convolution: x_zero pads the image, so that its border counts as 0.
Value* centred_convolution(Graph& g, Value* x, std::int64_t x_zero, Value* weight,
                           const Conv& attrs);

// Unsigned bytes minus 128 as signed ones: weights whose zero point is 128.
Value* minus_128(Graph& g, Value* x);

}  // namespace gex::ops
