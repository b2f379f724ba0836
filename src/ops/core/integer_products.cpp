#include "ops/core/integer_products.hpp"

#include "ops/core/build.hpp"

namespace gex::ops {

namespace {

Value* sum_i32(Graph& g, Value* x, Ints axes) {
  return cast(g, reduce_sum(g, cast(g, x, DType::i32), std::move(axes), true), DType::i32);
}

}  // namespace

Value* centred_product(Graph& g, Value* a, Value* a_zero, Value* b, Value* b_zero) {
  const Shape shape = a->type().shape;
  // One matrix for all batch entries: multiply all their rows at once.
  const bool flat = b->type().rank() == 2 && shape.size() > 2 &&
                    (a_zero == nullptr || a_zero->type().rank() == 0);
  if (flat) a = reshape(g, a, {product(Shape(shape.begin(), shape.end() - 1)), shape.back()});
  Value* y = apply(g, "integer_matmul", {a, b});
  if (a_zero != nullptr) y = sub(g, y, mul(g, a_zero, sum_i32(g, b, {-2})));
  if (b_zero != nullptr) {
    Value* rows = cast(g, a, DType::i32);
    if (a_zero != nullptr) rows = sub(g, rows, a_zero);
    y = sub(g, y, mul(g, b_zero, sum_i32(g, rows, {-1})));
  }
  if (!flat) return y;
  Shape result(shape.begin(), shape.end() - 1);
  result.push_back(b->type().shape.back());
  return reshape(g, y, std::move(result));
}

Value* centred_convolution(Graph& g, Value* x, std::int64_t x_zero, Value* weight,
                           const Conv& attrs) {
  GEX_CHECK(attrs.groups == 1, "an integer convolution in groups");
  if (attrs.padding[0] != 0 || attrs.padding[1] != 0) {
    const Dims pads{Dim(0), Dim(0), Dim(attrs.padding[0]), Dim(attrs.padding[1])};
    x = pad(g, x, pads, pads, static_cast<double>(x_zero));
  }
  Value* y = apply(g, "integer_conv2d", {x, weight}, IntegerConv{attrs.stride, attrs.dilation});
  if (x_zero == 0) return y;
  Value* sums = mul(g, sum_i32(g, weight, {1, 2, 3}), static_cast<double>(x_zero));
  return sub(g, y, reshape(g, sums, {weight->type().shape[0], Dim(1), Dim(1)}));
}

Value* minus_128(Graph& g, Value* x) {
  return cast(g, sub(g, cast(g, x, DType::i32), 128), DType::i8);
}

}  // namespace gex::ops
